"""Attacks on consent by hostile servers on the real Host; a witness file records their effects."""
