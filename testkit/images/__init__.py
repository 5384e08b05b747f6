"""Builds the images that run in the test cluster, also without a container registry."""
