"""Conversations and their turns.

A turn consists of a user message and the model responses and tool calls that follow it.
"""
