"""Ways around consent: each is tried on the real Host by a hostile server, and a witness says what really happened."""
