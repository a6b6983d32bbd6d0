"""Attacks on the user's consent by hostile servers, run against the real Host.

A witness file records every effect of an attack, such as a tool call that reached a server.
"""
