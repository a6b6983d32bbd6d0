"""The transcript: a view of the conversation as blocks of Markdown, streamed text, tool calls and images."""
