"""Server connections: approval, state, listings, change detection, skills, tasks and accounts."""
