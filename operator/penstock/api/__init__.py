"""The ContinuousStream resource: what people write, what they read back, and its rules.

Imports no other part of Penstock.
"""
