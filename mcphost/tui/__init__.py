"""The terminal UI, built on Textual: screens, dialogs and widgets.

It shows the host's events and asks the user the host's questions; it decides nothing itself.
"""
