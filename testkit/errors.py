"""The one error of this package: what is wrong, and what to do about it."""


class ClusterError(RuntimeError):
    """Something needed for a test cluster is missing or failed. The message says what to do."""
