"""Test doubles that the product does not ship: a scripted model and a scripted front."""
