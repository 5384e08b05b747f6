"""Penstock deploys continuous Spark streams on Kubernetes and keeps them running."""
