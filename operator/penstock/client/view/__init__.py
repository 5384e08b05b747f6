"""What is printed: pure functions from facts to text, and the live view."""
