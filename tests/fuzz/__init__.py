"""Fuzz tests that mutate server messages, reproducible by seed; `python -m tests.fuzz` runs them for longer."""
