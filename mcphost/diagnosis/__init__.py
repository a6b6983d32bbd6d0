"""Diagnosis of a server that does not work, step by step; it starts nothing and needs no running host."""
