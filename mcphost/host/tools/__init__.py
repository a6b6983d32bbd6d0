"""Execution of tool calls, from approval and hooks to the review of results, and mcphost's built-in tools."""
