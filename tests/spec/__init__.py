"""The requirements of the MCP specification for a host, one per line, and the tests that claim to cover them."""
