"""Tool calls: the pipeline, the executor, the review of results, and the host's own tools."""
