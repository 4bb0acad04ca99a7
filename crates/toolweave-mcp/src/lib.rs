//! MCP: upstream clients in, gateway server out.
