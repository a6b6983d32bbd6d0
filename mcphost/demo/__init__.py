"""The demo: a real MCP server that uses stdio, to which `mcphost demo` connects."""
