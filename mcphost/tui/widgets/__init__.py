"""Widgets that display given values and report user input through messages; they do no I/O."""
