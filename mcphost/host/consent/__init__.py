"""Consent to tool calls: rules, grants and auto-approve mode decide which calls may run without asking the user."""
