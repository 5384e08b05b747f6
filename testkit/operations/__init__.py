"""What people operate streams with: Argo CD, Prometheus, runbooks. Imports `testkit.kafka`."""
