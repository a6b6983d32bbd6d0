"""Configuration files: servers in mcp.json and settings in config.toml. Errors name the file, the key and a fix."""
