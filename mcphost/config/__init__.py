"""Configuration: servers in mcp.json, settings in config.toml; every error names file, key and fix."""
