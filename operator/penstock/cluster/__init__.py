"""The API server's objects, read by operator and command line: any field may be odd or absent."""
