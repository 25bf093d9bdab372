"""The examples in the docstrings and the README of the client library run as they are written, on the real gateway."""

import asyncio
import inspect
import textwrap

import pytest
import sqlalchemy as sa

import mirrorgate
from tests.api.calls import ADMIN_KEY, Gateway
from tests.api.commands import keys
from tests.project.facts import CLIENT, REPOSITORY

README = REPOSITORY / CLIENT / "README.md"


def example_of(name: str) -> str:
    if name == README.name:
        return README.read_text().partition("```python\n")[2].partition("```")[0]
    _, _, example = (inspect.getdoc(getattr(mirrorgate, name)) or "").partition("For example:\n\n")
    return textwrap.dedent(example)


@pytest.mark.parametrize(
    "name", ["AsyncChangeWriter", "ChangeWriter", "GatewayClient", "Load", "Producer", "mirror", README.name]
)
def test_an_example_stages_its_row(
    gateway: Gateway, api_engine: sa.Engine, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("MIRRORGATE_URL", gateway.address)
    monkeypatch.setenv("MIRRORGATE_API_KEY", ADMIN_KEY)
    columns = {"id": "int64"} | ({"total": "decimal(9,2)"} if name == README.name else {})
    gateway.register("shop.orders", columns, ["id"], row_images="on").raise_for_status()
    names = {each: getattr(mirrorgate, each) for each in mirrorgate.__all__}
    names |= {"url": gateway.address, "key": ADMIN_KEY}
    example = example_of(name).replace("http://127.0.0.1:8480", gateway.address).replace("mg_…", ADMIN_KEY)
    exec("async def example():\n" + textwrap.indent(example, "    "), names)  # noqa: S102  # the code is that of the docstrings
    asyncio.run(names["example"]())
    assert 1 in keys(api_engine, "shop.orders")
