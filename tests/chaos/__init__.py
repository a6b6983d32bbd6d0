"""Kill real programs at random moments; each module can also be run as a script."""
