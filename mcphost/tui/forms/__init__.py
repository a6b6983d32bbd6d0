"""Forms for the terminal: an input widget for each kind of field, and an input with suggestions."""
