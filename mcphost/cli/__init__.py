"""Command line of mcphost: parses arguments, builds the parts of the program, and turns errors into exit codes."""
