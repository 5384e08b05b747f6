"""What runs in the driver pod, and the same on a laptop: one query, started and kept running."""
