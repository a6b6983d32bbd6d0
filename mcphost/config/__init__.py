"""Configuration: servers in mcp.json and settings in config.toml. Error messages name the file, the key and the fix."""
