"""The demo: a real MCP server over stdio, and what `mcphost demo` starts with."""
