"""The configured servers: code that connects to them, approves and edits them, and tracks what they offer."""
