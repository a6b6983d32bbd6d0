"""Tests with third-party programs: servers of the official SDKs, npm servers and model servers."""
