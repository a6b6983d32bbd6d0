"""The terminal UI: screens, dialogs and widgets on Textual; shows events, answers questions, holds no judgement."""
