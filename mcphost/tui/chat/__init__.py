"""Parts of the chat screen that are not screens themselves: status, notices, manual calls and file completion."""
