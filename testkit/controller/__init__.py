"""A cluster in memory for the operator, and objects to put into it."""
