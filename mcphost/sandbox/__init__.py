"""Worker processes for untrusted input: they have limits and can be killed."""
