"""Finds what is wrong with a manifest before anything starts. Imports `api`, `sql`, `contract`."""
