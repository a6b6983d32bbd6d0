"""Requests from servers: elicitation, sampling and roots."""
