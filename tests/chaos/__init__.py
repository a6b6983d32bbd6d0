"""Real programs killed at random moments, again and again; each part runs for itself as a script, too."""
