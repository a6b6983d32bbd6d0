"""Tests of the architecture rules: imports, file sizes, names, documentation, and text that no file may contain."""
