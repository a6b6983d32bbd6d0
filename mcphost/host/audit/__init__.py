"""The audit log, which records questions to the user, decisions, and the actions taken by mcphost."""
