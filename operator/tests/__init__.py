"""The tests of the operator package: the folder says what a test needs."""
