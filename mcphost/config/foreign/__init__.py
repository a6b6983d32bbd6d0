"""Servers configured for other MCP hosts: where their files are, and their entries in mcphost's form."""
