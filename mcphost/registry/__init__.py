"""MCP registries: their entries (server.json), clients with a cache, bundles, install plans and updates."""
