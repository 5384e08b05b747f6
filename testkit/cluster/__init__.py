"""A kind cluster that is kept warm, with nothing in it that can reach the outside."""
