"""Widgets that display the values passed to them and post messages about user input; they do no I/O."""
