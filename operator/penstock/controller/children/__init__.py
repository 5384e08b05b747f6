"""The objects that the operator makes for a stream: pure builders and their comparison."""
