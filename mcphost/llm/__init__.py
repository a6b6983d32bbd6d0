"""Access to language models: through litellm in a worker process, or the built-in demo model."""
