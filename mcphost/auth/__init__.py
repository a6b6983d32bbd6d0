"""Secrets and sign-in: the vault, and everything an HTTP server may ask of us before it answers."""
