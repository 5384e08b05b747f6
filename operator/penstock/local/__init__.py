"""`penstock run`: runs the driver on one machine, shows it and, on request, starts Kafka for it.

Imports `driver`, `validation`, `contract`, `api`. Only `cli` imports it, and for
`tools/child_process.py` and `kafka/broker.py` the test kit.
"""
