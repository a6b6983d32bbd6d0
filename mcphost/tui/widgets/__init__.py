"""Widgets that display the values passed to them and report user input through messages; they do no I/O."""
