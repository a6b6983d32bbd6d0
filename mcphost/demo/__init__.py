"""The demo server: a real MCP server over stdio, to which `mcphost demo` connects."""
