"""MCP client: one session per server, with negotiation, deadlines, pagination and checks.

Other layers import `session` and `connect` only.
"""
