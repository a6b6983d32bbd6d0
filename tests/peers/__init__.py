"""Tests with foreign programs: the official SDK, npm servers, model servers."""
