"""Browsers without a script that are signed in."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Protocol

import pytest

from tests.api.calls import ADMIN_KEY, Gateway
from tests.api.console.plain_browser import Browser, signed_in


class SignIn(Protocol):
    """Makes browsers with a key of their own: `sign_in("read", tables=["sales.*"])`; without rights, with all."""

    def __call__(self, *rights: str, tables: list[str] | None = None) -> Browser: ...


@pytest.fixture
def sign_in(gateway: Gateway) -> Iterator[SignIn]:
    with ExitStack() as stack:

        def browser(*rights: str, tables: list[str] | None = None) -> Browser:
            key = gateway.new_key(*rights, tables=tables or ["*"])["key"] if rights else ADMIN_KEY
            return stack.enter_context(signed_in(gateway.address, key))

        yield browser


@pytest.fixture
def browser(sign_in: SignIn) -> Browser:
    """Give a signed-in administrator."""
    return sign_in()
