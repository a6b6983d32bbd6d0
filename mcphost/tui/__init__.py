"""The terminal user interface (TUI), built on Textual: screens, dialogs and widgets.

The TUI displays the host's events, and asks the user the host's questions, such as consent prompts.
"""
