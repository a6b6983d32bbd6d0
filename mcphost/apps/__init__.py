"""Interactive pages of tools (MCP Apps), shown by a browser from a server on 127.0.0.1."""
