"""Requests beyond the limit wait without holding what the others need, and not for ever."""

import asyncio

import pytest

from app.api.limits import ConcurrencyLimit
from mirrorgate.errors import Code, TemporarilyUnavailable


def test_a_request_waits_for_a_slot_and_is_told_to_come_back_if_there_is_none() -> None:
    async def ask() -> None:
        limit = ConcurrencyLimit("a comparison", 2, seconds=0.0)
        async with limit.slot():
            async with limit.slot():
                with pytest.raises(TemporarilyUnavailable, match=Code.OVERLOADED) as raised:
                    await limit.slot().__aenter__()
                assert raised.value.retry_after == 10
                assert raised.value.detail == "no slot for a comparison became free within 0 s"
            async with limit.slot():
                pass

    asyncio.run(ask())


def test_a_slot_that_becomes_free_goes_to_the_request_that_waits() -> None:
    async def ask() -> list[str]:
        limit, order = ConcurrencyLimit("a comparison", 1, seconds=60.0), list[str]()

        async def take(name: str) -> None:
            async with limit.slot():
                order.append(name)
                await asyncio.sleep(0)

        await asyncio.gather(*(take(name) for name in "abc"))
        return order

    assert asyncio.run(ask()) == ["a", "b", "c"]
