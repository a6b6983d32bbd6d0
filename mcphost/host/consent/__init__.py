"""Consent to tool calls: rules, grants and auto-approval."""
