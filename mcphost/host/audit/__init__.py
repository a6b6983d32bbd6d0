"""Audit of questions, decisions and effects."""
