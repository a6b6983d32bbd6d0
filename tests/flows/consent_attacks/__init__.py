"""Attacks on consent: a hostile server tries each on the real Host, and a witness file records the effects."""
