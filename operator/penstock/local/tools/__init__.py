"""Java, jars and child processes on this machine. Imports `driver` (its JVM) and `api`."""
