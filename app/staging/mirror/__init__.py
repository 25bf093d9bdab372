"""What Postgres knows of the Delta mirror.

The mirror process works without a database. With one, it stores its reports after each round (`reports`), and the API
reads from them how far each table is mirrored (`progress`), compared with the landing ledger.
"""
