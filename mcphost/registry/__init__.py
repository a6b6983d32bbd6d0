"""Search in MCP registries, and installation and update of the servers found there, including MCPB bundles."""
