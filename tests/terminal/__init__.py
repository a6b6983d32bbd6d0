"""Tests of the real program in a real terminal (tmux), by keyboard alone."""
