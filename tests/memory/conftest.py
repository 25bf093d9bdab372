"""A harness over one database."""

from tests.ingest.conftest import harness

__all__ = ["harness"]
