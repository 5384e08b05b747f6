"""Real systems to test against, fakes, and the helpers that tests share. Imports no test."""
