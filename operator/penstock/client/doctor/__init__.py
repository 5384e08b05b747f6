"""The checks of `penstock doctor`: pure functions from facts to findings.

Their order in `diagnosis.py` is from cause to effect, so the first problem names the cause.
"""
