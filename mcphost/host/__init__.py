"""The host without a user interface: servers, conversation, tool calls, consent and audit."""
