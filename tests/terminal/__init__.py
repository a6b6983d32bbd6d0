"""Tests that run the real program in a real terminal (tmux)."""
