"""Postgres lives here: the only authority on what was accepted, planned and published.

Functions take a synchronous SQLAlchemy connection and never commit; the caller's `with engine.begin()` block
is the transaction. Every statement is a named constant with its purpose.
"""
