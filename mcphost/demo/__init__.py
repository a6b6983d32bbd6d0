"""The demo: a real MCP server over stdio, which `mcphost demo` connects to."""
