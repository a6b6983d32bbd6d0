"""What a server gave back: what people see of it, what the model gets, and whether it fits its schema."""
