"""Gauges of what an API process holds rise and fall with it, and disappear with the process."""

import pytest

from app.api.limits import Allowance, MemoryBudget, Reservation
from app.observability.api_metrics import BODY_BYTES, CHANGE_REQUESTS
from tests.limits.conftest import Serve, held


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
