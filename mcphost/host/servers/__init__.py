"""Connections to servers: approval, state, lists and their changes, skills, tasks and accounts."""
