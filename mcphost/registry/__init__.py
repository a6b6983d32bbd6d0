"""Support for MCP registries: search, installation plans, bundles and updates."""
