"""Bytes: how messages reach a server and come back; knows JSON-RPC envelopes, nothing of MCP's features."""
