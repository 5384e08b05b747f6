"""The images that run in the test cluster, and how they are built where no registry is in reach."""
