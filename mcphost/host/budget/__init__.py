"""Budgets: the cost of model requests, the limits set by the user, and the check before each request."""
