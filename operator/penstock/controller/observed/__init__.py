"""What the cluster holds for a stream: read by one module, interpreted by the other."""
