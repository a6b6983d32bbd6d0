"""One call of the model: found, asked about, sent, and what the model gets of it; the host's own tools."""
