"""An API process imports nothing that it has no use for, whatever is installed beside it."""

from pathlib import Path

import pytest

from tests.api.calls import ADMIN_KEY, Gateway, insert
from tests.support.http.server import api_process


@pytest.mark.parametrize("processes", ["1", "2"])
def test_an_api_process_goes_without_pandas(database_url: str, processes: str) -> None:
    with api_process(database_url, ADMIN_KEY, API_PROCESSES=processes) as (process, address):
        with Gateway.at(address, ADMIN_KEY) as gateway:
            gateway.register("t", {"id": "int64", "day": "date"}, ["id"]).raise_for_status()
            for number in range(10):
                gateway.arcion(insert("t", id=str(number), day="2026-01-02")).raise_for_status()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        loaded = [Path(f"/proc/{pid}/maps").read_text() for pid in [process.pid, *children]]
        assert all("/pandas/" not in libraries for libraries in loaded)
        assert any("/pyarrow/" in libraries for libraries in loaded)
