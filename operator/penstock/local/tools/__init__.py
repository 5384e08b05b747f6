"""Java, jars and child processes on this machine."""
