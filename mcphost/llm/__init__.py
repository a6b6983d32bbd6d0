"""Language models: messages, the model interface, litellm in a worker process, and the demo model."""
