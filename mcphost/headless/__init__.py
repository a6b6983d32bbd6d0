"""Front ends without a screen: `run` for a single turn, and `pipe` for controlling the whole host with JSON lines."""
