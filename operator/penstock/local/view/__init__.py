"""What `penstock run` shows: pure rows and rates, and the two ways to print them.

Imports `driver` (its logs), `contract`, `api`.
"""
