"""Gauges of what an API process holds rise and fall with it, and disappear with the process."""

import pytest

from app.api.limits import Allowance, MemoryBudget, Reservation
from app.observability.api_metrics import BODY_BYTES, CHANGE_REQUESTS
from tests.limits.conftest import Serve


def value(text: str, name: str) -> float:
    [line] = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return float(line.split()[1])


def test_the_memory_budget_is_shown(serve: Serve) -> None:
    names = (
        "mirrorgate_change_requests_in_flight",
        "mirrorgate_unfinished_bodies",
        "mirrorgate_body_bytes_in_memory",
    )
    gateway = serve()
    before = [value(gateway.get("/metrics").text, name) for name in names]
    reservation = Reservation(MemoryBudget(Allowance(2, 100), 1, 100))
    reservation.assign_to("a")
    reservation.hold_body(10, 40, is_complete=False)
    held = gateway.get("/metrics").text
    assert [value(held, name) for name in names] == [before[0], before[1] + 1, before[2] + 40]
    reservation.hold_body(40, 40, is_complete=True)
    reservation.reserve(70)
    held = gateway.get("/metrics").text
    assert [value(held, name) for name in names] == [before[0] + 1, before[1], before[2] + 70]
    assert value(held, "mirrorgate_large_bodies_waiting") == 0
    reservation.release()
    assert [value(gateway.get("/metrics").text, name) for name in names] == before
    assert {gauge._multiprocess_mode for gauge in (CHANGE_REQUESTS, BODY_BYTES)} == {"livesum"}


@pytest.mark.parametrize(
    ("path", "route"),
    [("/docs", "/docs"), ("/openapi.json", "/openapi.json"), ("/", "/"), ("/v1/none", "unmatched")],
)
def test_each_page_counts_under_its_own_route(serve: Serve, path: str, route: str) -> None:
    gateway = serve()
    status = gateway.get(path).status_code
    assert f'mirrorgate_requests_total{{route="{route}",status="{status}"}}' in gateway.get("/metrics").text
