"""The words of MCP: every message of five revisions as frozen data; no I/O."""
