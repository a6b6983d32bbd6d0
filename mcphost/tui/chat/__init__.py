"""Parts of the chat screen that are no screens: its status, notices, manual calls and file completion."""
