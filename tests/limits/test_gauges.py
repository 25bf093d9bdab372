"""Gauges of what an API process holds rise and fall with it, and disappear with the process."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from uvicorn.supervisors import Multiprocess

from app.api.limits.memory_budget import Allowance, MemoryBudget, Reservation
from app.api.server.uvicorn_server import ApiProcesses
from app.observability.api_metrics import BODY_BYTES, CHANGE_REQUESTS
from tests.limits.conftest import Serve


def value(text: str, name: str) -> float:
    [line] = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return float(line.split()[1])


def test_the_memory_budget_is_shown(serve: Serve) -> None:
    names = ("mirrorgate_change_requests_in_flight", "mirrorgate_body_bytes_in_memory")
    gateway = serve()
    before = [value(gateway.get("/metrics").text, name) for name in names]
    budget = MemoryBudget(Allowance(2, 100), Allowance(2, 100))
    reservation = Reservation(budget)
    reservation.assign_to("a")
    reservation.reserve(70)
    held = gateway.get("/metrics").text
    assert [value(held, name) for name in names] == [before[0] + 1, before[1] + 70]
    assert value(held, "mirrorgate_large_bodies_waiting") == 0
    reservation.release()
    assert [value(gateway.get("/metrics").text, name) for name in names] == before
    assert {gauge._multiprocess_mode for gauge in (CHANGE_REQUESTS, BODY_BYTES)} == {"livesum"}


def test_gauges_of_a_process_that_died_no_longer_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    files = {pid: tmp_path / f"gauge_livesum_{pid}.db" for pid in (1001, 1002)}
    for file in files.values():
        file.touch()

    def replace(processes: ApiProcesses) -> None:
        processes.processes[0] = SimpleNamespace(pid=1003)  # type: ignore[call-overload]

    monkeypatch.setattr(Multiprocess, "keep_subprocess_alive", replace)
    processes = object.__new__(ApiProcesses)
    processes.processes = [SimpleNamespace(pid=pid) for pid in files]  # type: ignore[misc]
    processes.keep_subprocess_alive()
    assert [file.exists() for file in files.values()] == [False, True]


@pytest.mark.parametrize(
    ("path", "route"),
    [("/docs", "/docs"), ("/openapi.json", "/openapi.json"), ("/", "/"), ("/v1/none", "unmatched")],
)
def test_each_page_counts_under_its_own_route(serve: Serve, path: str, route: str) -> None:
    gateway = serve()
    status = gateway.get(path).status_code
    assert f'mirrorgate_requests_total{{route="{route}",status="{status}"}}' in gateway.get("/metrics").text
