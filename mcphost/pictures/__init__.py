"""Pictures: what they are by their own bytes, and decoded small, in a process that can be killed."""
