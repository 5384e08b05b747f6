"""An object store with the interface of S3, and what tests break in it."""
