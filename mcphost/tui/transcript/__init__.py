"""The transcript, which shows the conversation as a list of blocks, with Markdown, streamed text and images."""
