"""Files and standard input as documents, within bounds. Imports nothing of the rules."""
