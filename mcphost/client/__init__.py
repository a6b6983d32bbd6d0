"""One session per server: era, deadlines, pages, checks; the host sees `session` and `open` only."""
