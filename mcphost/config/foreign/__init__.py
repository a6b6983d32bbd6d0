"""Import of servers from the configuration files of other MCP hosts, such as Claude Desktop or VS Code."""
