"""MCP messages of all supported protocol revisions, as frozen data. Does no I/O."""
