"""End-to-end tests and the demo, on a real kind cluster."""
