"""Detection of text from servers and files that a tool call would send to another server."""
