"""Decides from the text of a query which modes of Spark support it. Imports `api`."""
