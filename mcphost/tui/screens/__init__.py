"""Screens: the chat and everything that opens over it."""
