"""Command line of mcphost: arguments, construction of the program, and exit codes for errors."""
