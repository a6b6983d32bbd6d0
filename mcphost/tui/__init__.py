"""The terminal user interface (TUI), built on Textual: screens, dialogs and widgets.

The TUI displays the host's events and puts the host's questions to the user, who makes every decision.
"""
