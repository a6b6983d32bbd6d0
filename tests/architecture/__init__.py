"""Architecture rules: imports, sizes, names, documentation and what no tracked file may contain."""
