"""Tests of the architecture rules: imports, file sizes, names, documentation, and forbidden text in tracked files."""
