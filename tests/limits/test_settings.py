"""Limits alone: settings that contradict each other, slots, the time of an upload, and gauges."""

import asyncio

import pytest

from app.api.limits import Allowance, ConcurrencyLimit, MemoryBudget, Reservation, TransferDeadline
from app.observability.api_metrics import BODY_BYTES, CHANGE_REQUESTS
from app.settings import Settings
from mirrorgate.errors import Code, Misconfigured, TemporarilyUnavailable
from tests.limits.conftest import Serve, held


def test_a_process_has_room_for_one_body_of_the_largest_size_compressed() -> None:
    with pytest.raises(Misconfigured, match=Code.BAD_SETTING) as rejection:
        Settings.from_environment(max_body_bytes=1_000_000, max_bytes_in_memory=1_999_999)
    assert "MIRRORGATE_MAX_BYTES_IN_MEMORY" in rejection.value.detail
    assert "twice MIRRORGATE_MAX_BODY_BYTES" in rejection.value.detail
    assert (
        Settings.from_environment(max_body_bytes=1_000_000, max_bytes_in_memory=2_000_000).bytes_in_memory == 2_000_000
    )


@pytest.mark.parametrize(("body", "room"), [(2**26, 2**28), (2**20, 2**26), (2**30, 2**32)])
def test_the_room_follows_from_the_largest_body_where_it_is_not_set(body: int, room: int) -> None:
    assert Settings.from_environment(max_body_bytes=body).bytes_in_memory == room


@pytest.mark.parametrize(
    "name", ["max_expansion", "max_request_messages", "max_value_bytes", "max_concurrent_requests", "max_backlog_bytes"]
)
def test_a_limit_that_lets_nothing_pass_is_rejected(name: str) -> None:
    with pytest.raises(Misconfigured):
        Settings.from_environment(**{name: 0})


@pytest.mark.parametrize("name", ["alert_url", "fabric_api", "storage_endpoint"])
@pytest.mark.parametrize("address", ["https://[::1", "https://", "https://a b", "https://host:x", "https://host/\n"])
def test_an_address_that_no_client_can_read_is_rejected_at_the_start(name: str, address: str) -> None:
    with pytest.raises(Misconfigured, match=rf"MIRRORGATE_{name.upper()}: (must be|String should)"):
        Settings.from_environment(**{name: address})
    assert Settings.from_environment(**{name: "https://[::1]:8443"})


@pytest.mark.parametrize("name", ["alert_secret", "mask_secret", "oidc_client_secret", "signing_key"])
def test_an_empty_secret_is_rejected(name: str) -> None:
    with pytest.raises(Misconfigured, match=f"MIRRORGATE_{name.upper()}: "):
        Settings.from_environment(**{name: ""})


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("RETENTION_DAYS", 36_525),
        ("AUDIT_DAYS", 36_525),
        ("LOAD_IDLE_HOURS", 876_600),
        ("MIRROR_RETENTION_HOURS", 876_600),
        ("DATABASE_SECONDS", 86_400),
        ("LEASE_SECONDS", 86_400),
        ("MONITORING_SECONDS", 86_400),
        ("FABRIC_POLL_SECONDS", 86_400),
        ("MIRROR_POLL_SECONDS", 86_400),
        ("ALERT_AFTER_SECONDS", 86_400),
    ],
)
def test_a_time_that_postgres_or_a_clock_cannot_count_is_rejected(
    name: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"MIRRORGATE_{name}", str(most))
    assert Settings.from_environment().model_dump()[name.lower()] == most
    monkeypatch.setenv(f"MIRRORGATE_{name}", str(10 * most))
    with pytest.raises(Misconfigured, match=f"MIRRORGATE_{name}: .* less than or equal to {most}"):
        Settings.from_environment()


@pytest.mark.parametrize("name", ["SOURCE_INFORMATION", "OIDC_RIGHTS", "MIRROR_STORAGE_OPTIONS"])
@pytest.mark.parametrize("text", ["{secret", "[" * 100_000])
def test_a_setting_that_is_not_json_is_named_without_its_text(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"MIRRORGATE_{name}", "")
    assert Settings.from_environment().model_dump()[name.lower()] == {}
    monkeypatch.setenv(f"MIRRORGATE_{name}", text)
    with pytest.raises(Misconfigured) as rejection:
        Settings.from_environment()
    assert rejection.value.detail == f"MIRRORGATE_{name}: must be a JSON object"


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


MIB = 2**20
DEADLINE = TransferDeadline(max_seconds=300, grace_seconds=10, min_rate=1024)


@pytest.mark.parametrize(
    ("received", "declared", "seconds"),
    [
        (0, 0, 10),  # no length: the rate alone
        (1024, 0, 11),
        (1024, 100_000, 11),
        (0, 64 * MIB, 10),
        (13_000, 64 * MIB, 10.058),  # 1.3 KB a second for the grace: rejected right after it
        (32 * MIB, 64 * MIB, 160),
        (64 * MIB, 64 * MIB, 300),
    ],
)
def test_a_large_body_must_come_at_the_rate_that_its_length_needs(received: int, declared: int, seconds: float) -> None:
    assert DEADLINE.seconds(received, declared) == pytest.approx(seconds, abs=0.01)


def test_the_memory_budget_is_shown(serve: Serve) -> None:
    gateway = serve()
    before = held(gateway)
    reservation = Reservation(MemoryBudget(Allowance(2, 100), 1, 100))
    reservation.assign_to("a")
    reservation.hold_body(10, 40, is_complete=False)
    assert held(gateway) == [before[0], before[1] + 1, before[2] + 40]
    reservation.hold_body(40, 40, is_complete=True)
    reservation.reserve(70)
    assert held(gateway) == [before[0] + 1, before[1], before[2] + 70]
    assert gateway.metric("large_bodies_waiting") == 0
    reservation.release()
    assert held(gateway) == before
    assert {gauge._multiprocess_mode for gauge in (CHANGE_REQUESTS, BODY_BYTES)} == {"livesum"}


@pytest.mark.parametrize(
    ("path", "route"),
    [("/docs", "/docs"), ("/openapi.json", "/openapi.json"), ("/", "/"), ("/v1/none", "unmatched")],
)
def test_each_page_counts_under_its_own_route(serve: Serve, path: str, route: str) -> None:
    gateway = serve()
    status = gateway.get(path).status_code
    assert f'mirrorgate_requests_total{{route="{route}",status="{status}"}}' in gateway.get("/metrics").text
