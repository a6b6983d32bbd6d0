"""The transcript, which shows the conversation as blocks, with Markdown, streamed text and images."""
