"""Meetings with real programs of other people: the official SDK, npm servers, model servers."""
