"""Tool calls: the pipeline for the model's calls, the executor, result review, and mcphost's built-in tools."""
