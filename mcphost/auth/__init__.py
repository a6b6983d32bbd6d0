"""Sign-in to HTTP servers (OAuth 2.1), and the storage of secrets."""
