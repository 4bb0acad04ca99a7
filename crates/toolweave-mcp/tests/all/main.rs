//! Both sides of MCP, seen from outside: upstreams that are real processes, and a gateway spoken to in lines of JSON.

mod gateway;
mod scripted;
mod upstreams;
