"""What `penstock run` shows, and the two ways to show it.

Imports `driver` (its logs), `contract`, `api`.
"""
