"""Import of servers from the configuration files of other MCP hosts."""
