"""What servers ask of us: the user's model, a form, an address, folders; each put to the user."""
