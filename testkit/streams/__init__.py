"""Streams, specs, queries and refused manifests that tests share."""
