"""Real parts to test against, and the helpers that tests share. Imports no test."""
