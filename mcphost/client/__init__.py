"""MCP client: one session for each server, with negotiation, time limits, pagination and validation.

Other layers import only `session` and `connect`.
"""
