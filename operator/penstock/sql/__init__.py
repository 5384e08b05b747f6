"""Which queries each mode of Spark accepts, judged from their text. Imports `api`."""
