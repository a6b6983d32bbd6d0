"""The real program in a real terminal (tmux), driven by keyboard alone."""
