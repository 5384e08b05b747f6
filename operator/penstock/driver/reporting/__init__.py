"""What the driver tells: the report, metrics, probes, measurements. Imports `driver.spark`."""
