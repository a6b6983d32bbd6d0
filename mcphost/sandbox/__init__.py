"""Worker processes for untrusted input, with resource limits and timeouts."""
