"""The examples in the docstrings of the client library run as they are written, against the real gateway."""

import asyncio
import inspect
import textwrap

import pytest
import sqlalchemy as sa

import mirrorgate
from tests.api.calls import ADMIN_KEY, Gateway
from tests.api.commands import keys


def example_of(name: str) -> str:
    _, _, example = (inspect.getdoc(getattr(mirrorgate, name)) or "").partition("For example:\n\n")
    return textwrap.dedent(example)


@pytest.mark.parametrize("name", ["AsyncChangeWriter", "ChangeWriter", "GatewayClient", "Load", "Producer", "mirror"])
def test_an_example_stages_its_row(
    gateway: Gateway, api_engine: sa.Engine, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("MIRRORGATE_URL", gateway.address)
    monkeypatch.setenv("MIRRORGATE_API_KEY", ADMIN_KEY)
    gateway.register("shop.orders", {"id": "int64"}, ["id"], row_images="on").raise_for_status()
    names = {each: getattr(mirrorgate, each) for each in mirrorgate.__all__}
    names |= {"url": gateway.address, "key": ADMIN_KEY}
    exec("async def example():\n" + textwrap.indent(example_of(name), "    "), names)  # noqa: S102  # the code is that of the docstrings
    asyncio.run(names["example"]())
    assert 1 in keys(api_engine, "shop.orders")
