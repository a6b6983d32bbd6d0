"""Budgets: what requests to models cost, the limits set by the user, and the check before each request."""
