"""The errors of this package. Each message says what is wrong, and what to do about it."""


class ClusterError(RuntimeError):
    """Something that a test needs is missing or failed."""


class KubectlError(ClusterError):
    """kubectl failed. The message holds the command and what kubectl printed."""


class WaitTimeout(AssertionError):
    """A condition did not become true in time. The message holds what was last observed."""
