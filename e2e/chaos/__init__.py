"""Faults on the real cluster, under numbered traffic."""
