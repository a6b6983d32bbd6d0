"""Servers: approved, connected, listed, watched; their tools, skills, templates, accounts."""
