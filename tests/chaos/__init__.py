"""Real programs killed at random moments; each module also runs as a script."""
