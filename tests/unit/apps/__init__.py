"""Tests of mcphost.apps."""
