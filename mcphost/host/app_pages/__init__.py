"""Interactive pages of tools (MCP Apps): the calls that have one, the open pages, and their messages."""
