"""The terminal user interface (TUI), built on Textual: screens, dialogs and widgets.

The TUI displays the host's events, and shows its questions, such as consent prompts, to the user.
"""
