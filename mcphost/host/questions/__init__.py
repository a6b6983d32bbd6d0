"""What people are asked: every question with its answers and its refusal, and who answers."""
