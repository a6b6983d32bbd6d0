"""Step-by-step diagnosis of a server that does not work; no server is started and no running host is needed."""
