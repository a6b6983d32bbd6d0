"""MCP messages of all supported protocol revisions, as immutable data. Does no I/O."""
