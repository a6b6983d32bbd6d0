"""Screens of the app: the chat, and the list screens and forms that open over it."""
