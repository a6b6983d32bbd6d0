"""The test suite: tests/unit mirrors the package; tests/flows, tests/screens and tests/terminal test it as a whole."""
