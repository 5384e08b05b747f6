"""End-to-end tests, and the machinery that gives them a real cluster."""
