"""What the operator and the driver must agree on: names, sizes, mounted Secrets, pod templates.

Imports `api` and `sql`.
"""
