"""Configuration: servers in mcp.json, settings in config.toml; every error names the file, the key and the fix."""
