"""Conversations and their turns; a turn is a user message together with the answers and tool calls that follow."""
