"""Storage in SQLite: conversations, grants, approved servers, tool fingerprints, tasks and the audit log."""
