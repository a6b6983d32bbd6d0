"""Conversations and their turns; a turn is a user message with the answers and tool calls that follow."""
