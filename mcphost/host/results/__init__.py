"""Results of tools and resources: presentation, structured content and validation."""
