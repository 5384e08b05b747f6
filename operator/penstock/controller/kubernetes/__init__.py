"""The only access to the Kubernetes API, and the Lease of the operator that may write."""
