"""The terminal UI, built on Textual: screens, dialogs and widgets.

It displays the host's events and asks the user the host's questions. It makes no decisions for the user.
"""
