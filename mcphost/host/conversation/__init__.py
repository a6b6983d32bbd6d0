"""Conversations and their turns: a user message, then model answers and tool calls until the model is done."""
