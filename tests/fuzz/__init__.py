"""Seeded mutations of what servers send: `python -m tests.fuzz lines|streams`; a short run is part of the tests."""
