"""The change endpoints answer the same in front of the framework and through its routes."""

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "api_address" in metafunc.fixturenames:
        entries = {"in front": True, "through the framework": False}
        metafunc.parametrize("api_address", entries.values(), ids=entries.keys(), indirect=True, scope="session")
