"""The transcript: the conversation on the screen as blocks, with Markdown, streamed text and images."""
