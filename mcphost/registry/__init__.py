"""MCP registries: entries (server.json), the registry API with its cache, and install plans."""
