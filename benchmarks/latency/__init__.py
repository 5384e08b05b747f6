"""Latency of each mode on the fraud example, beside what a user would pick instead."""
