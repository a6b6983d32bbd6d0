"""Rules of the house: imports, sizes, documentation and what may never be in a tracked file."""
