"""Tests, by kind: unit mirrors the package; flows, screens and terminal test all of it; peers test other programs."""
