"""What is wrong with a manifest, before anything is started. Imports `api`, `sql`, `contract`."""
