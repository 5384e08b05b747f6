"""From the spec to Spark: session, query, options, executors. Imports `driver.checkpoint`."""
