"""The kind cluster: started once, reused, and without a way to the outside."""
