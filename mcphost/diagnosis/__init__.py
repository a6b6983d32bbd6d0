"""Step-by-step diagnosis of a server that does not work; it starts no server and needs no Host."""
