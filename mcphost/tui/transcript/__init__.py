"""The conversation on the screen: blocks, their layout, Markdown, streaming and images."""
