"""The audit log: questions asked, decisions made and actions taken by mcphost."""
