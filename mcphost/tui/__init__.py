"""The terminal UI, built on Textual: screens, dialogs and widgets.

It displays the host's events and puts the host's questions to the user, who makes every decision.
"""
