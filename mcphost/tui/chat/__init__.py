"""Parts of the chat screen that are not screens themselves.

They handle the status, notices, manual tool calls and file completion.
"""
