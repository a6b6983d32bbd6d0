"""Tests with third-party programs: the official SDK, npm servers and model servers."""
