"""The Kafka broker of `penstock run --with-kafka`: its topics, its clients, the redirected stream.

Imports `local.view` for rows, `local.tools`, `driver`, `api`.
"""
