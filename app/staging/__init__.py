"""Postgres: the only authority on what was accepted, planned and published, and the only place with SQL.

A request is staged by `writer` and `batches`; the drain plans and records its files in `ledger`. `tables` has the
tables and the operations on them, `images` and `rebuild` what is made of row images, `mirror` the reports of the Delta
mirror, `access` the API keys and the audit, `retention` what is forgotten, `connection` the engines. Functions take a
synchronous SQLAlchemy connection and never commit: the caller's `with engine.begin()` block is the transaction, so a
process that dies inside leaves nothing. Every statement is a constant with its purpose below it, and
migrations/schema.sql describes the tables.
"""
