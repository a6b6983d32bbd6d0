"""The command line: composes everything, parses arguments, turns errors into exit codes."""
