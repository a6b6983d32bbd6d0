"""Models: the conversation's own data, one protocol, the worker that holds litellm, and the demo model."""
