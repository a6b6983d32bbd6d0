"""The test suite: unit mirrors the package; flows, screens and terminal test it as a whole."""
