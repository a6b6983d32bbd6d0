"""Tools that extract, merge and compile the catalog of translations."""
