"""Checks values against schemas that strangers wrote, in a process that can be killed."""
