"""The operator: desired state and observed state in, changes and status out."""
