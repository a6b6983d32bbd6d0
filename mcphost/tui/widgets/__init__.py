"""Widgets that display given values and report user input through messages; they perform no I/O."""
