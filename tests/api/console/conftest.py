"""A signed-in browser, and the tables that the pages show."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
import pytest

from tests.api.calls import ADMIN_KEY, Gateway

SignIn = Callable[..., httpx.Client]


@pytest.fixture
def sign_in(gateway: Gateway, api_address: str) -> Iterator[SignIn]:
    """Make browsers that are signed in with a key of these rights: `sign_in("read", tables=["sales.*"])`."""
    with ExitStack() as stack:

        def signed_in(*rights: str, tables: list[str] | None = None) -> httpx.Client:
            wanted = {"rights": list(rights), "tables": tables or ["*"]}
            key = gateway.post("/v1/keys", json=wanted).raise_for_status().json()["key"] if rights else ADMIN_KEY
            client = stack.enter_context(httpx.Client(base_url=api_address, trust_env=False, timeout=30))
            assert client.post("/console/sign-in", data={"key": key}).status_code == 303
            return client

        yield signed_in


@pytest.fixture
def browser(sign_in: SignIn) -> httpx.Client:
    """Give a signed-in administrator."""
    return sign_in()


def csrf_of(page: str) -> str:
    """Return the token for the forms of a page."""
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', page)
    assert found is not None
    return found[1]
