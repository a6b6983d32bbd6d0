"""Tests, by kind: unit mirrors the package; flows, screens and terminal see it whole; peers are programs of others."""
