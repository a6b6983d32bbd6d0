"""Seeded mutations of server messages; a short run is part of the tests. See `python -m tests.fuzz`."""
