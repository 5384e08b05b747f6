"""The process in the driver pod, or on a laptop: starts one query and keeps it running."""
