"""Tests that kill mcphost or damage its files at random; each module can also be run as a script."""
