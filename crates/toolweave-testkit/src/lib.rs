//! Test kit: fixture MCP server, case files, scripted model.
