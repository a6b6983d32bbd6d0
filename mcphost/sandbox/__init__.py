"""Worker processes that handle untrusted input, with resource limits and timeouts."""
