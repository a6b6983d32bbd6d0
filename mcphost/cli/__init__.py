"""Command-line interface of mcphost: one module per command or group of commands, and the code that they share."""
