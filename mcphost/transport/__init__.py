"""Transports, which carry bytes and JSON-RPC messages to and from servers."""
