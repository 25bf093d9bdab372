"""Requests that take turns wait without holding what the others need, and not for ever."""

import asyncio

import pytest

from app.api.limits.places import Places
from app.errors import Code, TemporarilyUnavailable


def test_a_request_waits_for_a_place_and_is_told_to_come_back_if_there_is_none() -> None:
    async def ask() -> None:
        places = Places(2, seconds=0.0)
        async with places.taken():
            async with places.taken():
                with pytest.raises(TemporarilyUnavailable) as raised:
                    await places.taken().__aenter__()
                assert raised.value.code is Code.OVERLOADED
                assert raised.value.retry_after == 10
            async with places.taken():
                pass

    asyncio.run(ask())


def test_a_place_that_becomes_free_goes_to_the_request_that_waits() -> None:
    async def ask() -> list[str]:
        places, order = Places(1, seconds=60.0), list[str]()

        async def take(name: str) -> None:
            async with places.taken():
                order.append(name)
                await asyncio.sleep(0)

        await asyncio.gather(*(take(name) for name in "abc"))
        return order

    assert asyncio.run(ask()) == ["a", "b", "c"]
