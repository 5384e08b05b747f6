"""A cluster in memory and a real control plane for the operator, and sample objects."""
