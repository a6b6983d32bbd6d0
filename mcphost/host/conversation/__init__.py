"""Conversations and their turns: user message, model, tool calls, model again."""
