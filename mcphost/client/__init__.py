"""MCP client: one session per server, with negotiation, time limits, pagination and validation.

Other layers import only `session` and `connect`.
"""
