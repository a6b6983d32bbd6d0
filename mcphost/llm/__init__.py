"""Models: messages, the interface of a model, litellm in a worker process, and the demo model."""
