"""A real API server alone, controllers beside it, and kubectl."""
