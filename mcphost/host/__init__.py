"""The core of mcphost, independent of any user interface.

It contains the servers, conversations, tool calls, consent and the audit log.
"""
