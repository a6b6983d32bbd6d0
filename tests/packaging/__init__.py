"""Tests for the wheel, as installed by a user."""
