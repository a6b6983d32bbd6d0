"""Transports: how bytes and JSON-RPC messages reach a server and come back, without knowledge of MCP features."""
