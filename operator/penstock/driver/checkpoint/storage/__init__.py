"""The files of a checkpoint, on a volume or in an object store, and the right to write them."""
