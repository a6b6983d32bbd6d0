"""Budgets: record the cost of model requests, and check it against the user's limits before each request."""
