"""Server connections: approval, state, lists, changes, skills, tasks and accounts."""
