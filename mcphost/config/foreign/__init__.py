"""Import of servers from the configuration of other MCP hosts, such as Claude Desktop or VS Code."""
