"""Generators of the CRD and the reference documents from the models."""
