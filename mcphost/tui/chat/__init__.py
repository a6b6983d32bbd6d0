"""Parts of the chat screen: status, notices, manual tool calls and file completion."""
