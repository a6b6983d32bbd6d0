"""Rendering of the results of tools and resources, for the user and for the model."""
