"""The gateway that bridges post to in tests: the real app, as the tests of the API run it."""

from tests.api.conftest import api_address, api_database, api_engine, gateway

__all__ = ["api_address", "api_database", "api_engine", "gateway"]
