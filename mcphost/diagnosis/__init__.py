"""Step-by-step diagnosis of a server that does not work, without starting a server or needing a host."""
