"""The core of mcphost, which needs no user interface: servers, conversations, tool calls, consent and the audit log."""
