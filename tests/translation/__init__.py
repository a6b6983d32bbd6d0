"""Extract, merge and compile the catalog of translations."""
