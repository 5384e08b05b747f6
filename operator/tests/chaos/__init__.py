"""Faults of drivers, brokers and topics, with real parts on this machine."""
