"""What the driver asks the Kubernetes API. Imports `driver.environment` and the contract."""
