"""The command line: it parses arguments, builds the parts of the program, and turns errors into exit codes."""
