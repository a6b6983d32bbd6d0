"""Dialogs: one question each, refused unless the user approves."""
