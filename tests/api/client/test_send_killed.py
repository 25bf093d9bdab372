"""`mirrorgate send --producer` with the real API: the process is killed during a request and continues exactly."""

import subprocess
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.api.calls import ADMIN_KEY, Gateway
from tests.api.commands import keys, lines, staged
from tests.support.http.holding_proxy import Held, kill_while_held
from tests.support.processes import started

PART = 10


def sending(address: str, *arguments: object) -> "AbstractContextManager[subprocess.Popen[str]]":
    connection = ("--url", address, "--key", ADMIN_KEY)
    return started("mirrorgate.cli", "send", *arguments, "--format", "arcion", "--producer", "p", *connection)


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


@pytest.mark.parametrize(("kind", "batch"), [(Held.LOST, 7), (Held.IN_FLIGHT, PART), (Held.ANSWERED, 7)])
def test_a_killed_sending_goes_on_exactly(gateway: Gateway, tmp_path: Path, kind: Held, batch: int) -> None:
    gateway.register("t", {"id": "int64", "note": "string"}, ["id"])
    file = tmp_path / "changes.ndjson"
    file.write_bytes(b"\n".join(lines(5 * PART)))
    kill_while_held(gateway.address, 3, kind, lambda url: sending(url, file, "--batch", PART))
    durable = 2 if kind is Held.LOST else 3
    assert len(staged(gateway.engine, "t")) == durable * PART
    with sending(gateway.address, file, "--batch", batch) as process:
        assert ended(process) == (0, "")
    assert keys(gateway.engine) == list(range(5 * PART))


@pytest.mark.parametrize("kind", [Held.IN_FLIGHT, Held.LOST])
def test_a_killed_sending_of_a_folder_goes_on_exactly(gateway: Gateway, tmp_path: Path, kind: Held) -> None:
    gateway.register("t", {"id": "int64", "note": "string"}, ["id"])
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.json").write_bytes(b"\n".join(lines(2 * PART, 2 * PART * number)))
    kill_while_held(gateway.address, 4, kind, lambda url: sending(url, folder, "--batch", PART))
    with sending(gateway.address, folder) as process:
        status, errors = ended(process)
    assert status == 0, errors
    assert keys(gateway.engine) == list(range(6 * PART))
