"""Widgets: draw what they are given and post what the user did; no I/O, no Host."""
