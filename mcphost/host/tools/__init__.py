"""Tool calls: the pipeline for the model's calls, the executor, result review, and built-in tools."""
