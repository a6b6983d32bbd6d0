"""Step-by-step diagnosis of a server that does not work; the server is not started, and no Host object is needed."""
