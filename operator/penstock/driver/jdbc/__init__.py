"""Asks a database about the table that a stream writes, through the driver in its JVM."""
