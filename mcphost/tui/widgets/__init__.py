"""Widgets, which show the values passed to them and post messages about user input; no I/O, no Host."""
