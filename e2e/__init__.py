"""End-to-end tests on a real kind cluster."""
