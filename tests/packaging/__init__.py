"""Tests for the wheel, installed as a user would install it."""
