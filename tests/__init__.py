"""Tests, by kind: unit mirrors the package; flows, screens and terminal test the whole; peers are foreign programs."""
