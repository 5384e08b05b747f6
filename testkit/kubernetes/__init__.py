"""A real API server without a cluster, and kubectl."""
