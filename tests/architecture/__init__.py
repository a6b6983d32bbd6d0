"""Architecture rules: imports, file sizes, names, documentation, and text that no tracked file may contain."""
