"""The operator: it reads desired and observed state, and writes changes and status."""
