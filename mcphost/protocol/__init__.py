"""MCP messages of five revisions as frozen data; no I/O."""
