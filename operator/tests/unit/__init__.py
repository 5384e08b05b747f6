"""Tests that need no JVM and no container."""
