"""Seeded mutations of server messages: `python -m tests.fuzz lines|streams`; a short run is part of the tests."""
