"""The commands of a person on call: `penstock status`, `logs`, `doctor` and `top`.

What the cluster says is one value (`cluster_facts.py`); what is printed follows from it by pure
functions. Imports `cluster`, `contract` and `api`.
"""
