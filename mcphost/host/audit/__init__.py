"""The audit log: what mcphost asked, what was decided, and what was done."""
