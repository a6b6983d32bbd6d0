"""Frontends without a screen: `run` for a single turn, and `pipe` for the whole host over JSON lines."""
