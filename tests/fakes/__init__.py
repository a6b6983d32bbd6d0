"""Test doubles: a scripted model, a scripted frontend and a clock."""
