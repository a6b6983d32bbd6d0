"""Test doubles that many tests share, such as a scripted model, a scripted front end and a clock."""
