"""The demo: `laptop.py` is `make demo`, `cluster.py` is `make demo-cluster`.

Both send the same payments through the same stream and count the same way (`payments.py`).
"""
