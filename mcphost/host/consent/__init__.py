"""Consent to tool calls: rules, grants, what runs on its own, and what was allowed."""
