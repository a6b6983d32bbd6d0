"""What must survive: conversations, grants, trust and eras, in one SQLite file."""
