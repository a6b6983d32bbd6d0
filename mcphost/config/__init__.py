"""What the user wrote: servers in mcp.json, settings in config.toml; every mistake names file, key and fix."""
