"""`mirrorgate send --producer` with the real API: the process is killed during a request and continues exactly."""

import subprocess
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.api.calls import ADMIN_KEY, Gateway
from tests.api.commands import lines, staged
from tests.support.http.holding_proxy import Held, holding_proxy
from tests.support.processes import started

PART = 10


def sending(address: str, *arguments: object) -> tuple[object, ...]:
    connection = ("--url", address, "--key", ADMIN_KEY)
    return ("send", *arguments, "--format", "arcion", "--producer", "p", *connection)


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


@pytest.mark.parametrize(("kind", "batch"), [(Held.LOST, 7), (Held.IN_FLIGHT, PART), (Held.ANSWERED, 7)])
def test_a_killed_sending_goes_on_exactly(
    gateway: Gateway, api_address: str, api_engine: sa.Engine, tmp_path: Path, kind: Held, batch: int
) -> None:
    gateway.register("t", {"id": "int64", "note": "string"}, ["id"])
    file = tmp_path / "changes.ndjson"
    file.write_bytes(b"\n".join(lines(5 * PART)))
    with holding_proxy(api_address, 3, kind) as before:
        with started("mirrorgate.cli", *sending(before.url, file, "--batch", PART)) as process:
            assert before.held.wait(60)
            process.kill()
            process.wait()
        before.release.set()
        assert before.passed.wait(60)
    durable = 2 if kind is Held.LOST else 3
    assert len(staged(api_engine, "t")) == durable * PART
    with started("mirrorgate.cli", *sending(api_address, file, "--batch", batch)) as process:
        assert ended(process) == (0, "")
    assert [row[0] for row in staged(api_engine, "t")] == list(range(5 * PART))


@pytest.mark.parametrize("kind", [Held.IN_FLIGHT, Held.LOST])
def test_a_killed_sending_of_a_folder_goes_on_exactly(
    gateway: Gateway, api_address: str, api_engine: sa.Engine, tmp_path: Path, kind: Held
) -> None:
    gateway.register("t", {"id": "int64", "note": "string"}, ["id"])
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.json").write_bytes(b"\n".join(lines(2 * PART, 2 * PART * number)))
    with holding_proxy(api_address, 4, kind) as before:
        with started("mirrorgate.cli", *sending(before.url, folder, "--batch", PART)) as process:
            assert before.held.wait(60)
            process.kill()
            process.wait()
        before.release.set()
        assert before.passed.wait(60)
    with started("mirrorgate.cli", *sending(api_address, folder)) as process:
        status, errors = ended(process)
    assert status == 0, errors
    assert [row[0] for row in staged(api_engine, "t")] == list(range(6 * PART))
