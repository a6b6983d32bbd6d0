"""The host: servers, conversation, tool calls, consent and audit, without a user interface."""
