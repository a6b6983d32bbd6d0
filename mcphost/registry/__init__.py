"""Support for MCP registries: reading their entries, planning installations, unpacking bundles, updating servers."""
