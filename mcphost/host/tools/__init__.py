"""Tool calls: the pipeline for calls of the model, the executor, result review, and the host's own tools."""
