"""Transports: bytes and JSON-RPC envelopes to and from a server, without knowledge of MCP features."""
