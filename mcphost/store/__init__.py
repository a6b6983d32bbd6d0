"""SQLite persistence: conversations, grants, approved servers, tool fingerprints, tasks, audit log."""
