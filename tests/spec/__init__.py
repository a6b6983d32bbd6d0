"""What the specification asks of a host, one line each, and which of it our tests claim."""
