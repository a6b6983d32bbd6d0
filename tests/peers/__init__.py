"""Tests with third-party programs: the official SDK, npm servers, model servers."""
