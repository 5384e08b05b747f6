"""Streams, specs and queries that tests share, as tables."""
