"""Judges the SQL and Python of a spec, which tenants wrote, within bounds."""
