"""Reads facts and logs from the API server."""
