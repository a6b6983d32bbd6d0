"""Test doubles, such as a scripted model, a scripted front end and a clock."""
