"""What the API server holds: the stream, its children and the driver pod, each as one value."""
