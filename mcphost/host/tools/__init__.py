"""Tool calls: the pipeline for calls proposed by the model, the executor, the review of results, and built-in tools."""
