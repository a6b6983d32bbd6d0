"""MCP client: one session per server, with negotiation, time limits, pagination and validation.

The entry points for other packages are the modules `session` (interfaces) and `connect` (implementation).
"""
