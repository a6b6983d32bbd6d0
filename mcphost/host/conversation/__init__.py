"""Turns: the user's message, the model, its calls, the model again; and the conversation they make."""
