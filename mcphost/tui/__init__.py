"""The terminal UI on Textual: screens, dialogs and widgets that show events and ask questions; no policy."""
