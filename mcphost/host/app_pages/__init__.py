"""Interactive pages of tools (MCP Apps): the tool calls that have a page, the open pages, and their messages."""
