"""`mirrorgate tables verify` finds every difference between ledger and landing zone, and no false ones."""

import errno
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from app.checks.landing_zone import require_own_zone, verify_table
from app.domain.model.landing_file import file_name
from app.domain.model.table import FileNumber
from app.landing.local_zone import LocalZone
from app.landing.zone import PathKind
from mirrorgate_zone.emulator import Trust
from tests.drain.conftest import NewDrain
from tests.drain.test_landing_zone_command import terminal
from tests.support.cli_output import Terminal, first_json
from tests.support.gateway_parts import current, registered, stage_keys
from tests.support.onelake.clients import onelake_address
from tests.support.onelake.fixtures import NewOneLake, new_onelake, trust
from tests.support.postgres import sql
from tests.support.samples.schemas import ID
from tests.support.small_drain import publish_each, publish_pending

__all__ = ["new_onelake", "terminal", "trust"]


def named(number: int) -> str:
    return file_name(FileNumber(number))


@pytest.fixture
def folder(engine: sa.Engine, landing_zone: Path, new_drain: NewDrain) -> Path:
    """Give the folder of a table with four files, the first two consumed."""
    registered(engine, "t", ID)
    registered(engine, "empty", ID)
    publish_each(new_drain(), "t", 1, 2, 3, 4)
    folder = landing_zone / "t"
    for number, processed in ((1, "_FilesReadyToDelete"), (2, "_ProcessedFiles")):
        (folder / processed).mkdir()
        (folder / named(number)).rename(folder / processed / named(number))
    return folder


def report(terminal: Terminal, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    status, output, _ = terminal.run("tables", "verify", *arguments, "--json")
    return status, first_json(output)


def test_nothing_differs_where_nothing_was_touched(terminal: Terminal, folder: Path) -> None:
    status, tables = report(terminal, "--all")
    assert status == 0
    assert [(entry["table"], entry["compared"], entry["differences"]) for entry in tables] == [
        ("empty", 0, []),
        ("t", 4, []),
    ]
    assert terminal.run("tables", "verify", "t")[:2] == (
        0,
        "t: 4 files compared, 0 removed by mirroring, no difference\n",
    )


def test_the_zone_that_the_database_publishes_into_is_compared_where_none_is_named(
    terminal: Terminal, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MIRRORGATE_LANDING_ZONE")
    assert report(terminal, "t")[1][0]["compared"] == 4
    assert terminal.run("landing-zone", "move")[0] == 1


def flip_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[20] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("harm", "problems"),
    [
        (lambda folder: (folder / named(3)).write_bytes(b""), ["changed 3"]),
        (lambda folder: flip_a_bit(folder / "_ProcessedFiles" / named(2)), ["changed 2"]),
        (lambda folder: (folder / named(3)).unlink(), ["missing 3"]),
        (lambda folder: (folder / named(4)).unlink(), ["missing 4"]),
        (lambda folder: shutil.copy(folder / "_ProcessedFiles" / named(2), folder / named(2)), ["unexpected 2"]),
        (lambda folder: shutil.copy(folder / named(4), folder / named(9)), ["unexpected 9"]),
        (lambda folder: (folder / "notes.txt").touch(), ["unexpected notes.txt"]),
        (
            lambda folder: ((folder / named(4)).unlink(), os.mkfifo(folder / named(4))),
            ["changed 4", "unexpected 4"],
        ),
        (lambda folder: (folder / "_gateway.json").write_text("broken"), ["marker _gateway.json"]),
    ],
    ids=[
        "an emptied file",
        "one bit",
        "a deleted file",
        "the last file deleted",
        "a copy of a consumed file",
        "a copy beyond the last file",
        "a stray file",
        "a FIFO",
        "the marker",
    ],
)
def test_what_differs_is_named_and_the_exit_code_says_so(
    terminal: Terminal, folder: Path, harm: Callable[[Path], object], problems: list[str]
) -> None:
    harm(folder)
    status, [entry] = report(terminal, "t")
    assert status == 1
    found = [
        f"{one['problem']} {one['path'].rpartition('/')[2].removesuffix('.parquet').lstrip('0')}"
        for one in entry["differences"]
    ]
    assert found == problems
    status, output, _ = terminal.run("tables", "verify", "t")
    assert (status, output.count("\n")) == (1, 1 + len(problems))


def test_files_that_mirroring_removed_a_week_after_they_were_published_are_not_missing(
    engine: sa.Engine, terminal: Terminal, folder: Path
) -> None:
    for processed in ("_FilesReadyToDelete", "_ProcessedFiles"):
        for file in (folder / processed).iterdir():
            file.unlink()
    status, [entry] = report(terminal, "t")
    assert (status, len(entry["differences"])) == (1, 2)
    sql.run(engine, "UPDATE mirrorgate.landing_files SET published_at = published_at - interval '8 days'")
    status, [entry] = report(terminal, "t")
    assert (status, entry["removed"], entry["compared"], entry["differences"]) == (0, 2, 2, [])


def test_a_file_that_mirroring_moves_while_it_is_compared_does_not_differ(
    terminal: Terminal, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = LocalZone.kinds

    def kinds(zone: LocalZone, path: str) -> Any:
        listed = real(zone, path)
        if path == "t" and (folder / named(3)).exists():
            (folder / named(3)).rename(folder / "_ProcessedFiles" / named(3))
        return listed if not path.endswith("_ProcessedFiles") else {named(2): listed[named(2)]}

    monkeypatch.setattr(LocalZone, "kinds", kinds)
    status, [entry] = report(terminal, "t")
    assert (status, entry["compared"], entry["differences"]) == (0, 4, [])


def test_a_file_that_is_published_meanwhile_is_neither_missing_nor_unexpected(
    engine: sa.Engine, terminal: Terminal, folder: Path, new_drain: NewDrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql.run(engine, "DELETE FROM mirrorgate.workers")
    cycle, real = new_drain(), LocalZone.kinds

    def kinds(zone: LocalZone, path: str) -> Any:
        monkeypatch.setattr(LocalZone, "kinds", real)
        stage_keys(engine, current(engine, "t"), [5])
        with capture_logs():  # they go to the same standard output
            publish_pending(cycle)
        return real(zone, path)

    monkeypatch.setattr(LocalZone, "kinds", kinds)
    status, [entry] = report(terminal, "t")
    assert (status, entry["compared"], entry["differences"]) == (0, 4, [])


def test_another_zone_is_rejected_instead_of_reported_as_empty(
    terminal: Terminal, folder: Path, tmp_path: Path
) -> None:
    assert terminal.run("tables", "verify", "--all", "--landing-zone", tmp_path / "other")[:2] == (1, "")
    assert terminal.run("tables", "verify", "none")[0] == 1
    assert terminal.run("tables", "verify")[0] == 2


def test_a_folder_without_the_right_to_read_is_an_error_with_a_remedy(
    terminal: Terminal, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test of root can take no right away."""

    def refuse(_: LocalZone, path: str) -> Mapping[str, PathKind]:
        raise PermissionError(errno.EACCES, "Permission denied", str(folder.parent / path))

    monkeypatch.setattr(LocalZone, "kinds", refuse)
    status, _, errors = terminal.run("tables", "verify", "t")
    assert (status, f"error storage_failed: EACCES (Permission denied) at {folder}\n" in errors) == (1, True)
    assert "remedy: Give " in errors


def test_files_in_onelake_are_compared_too(
    engine: sa.Engine, new_drain: NewDrain, new_onelake: NewOneLake, trust: Trust
) -> None:
    zone = onelake_address(new_onelake(), trust)
    stage_keys(engine, registered(engine, "t", ID), [1])
    publish_pending(new_drain(zone=zone))
    require_own_zone(engine, zone)
    seen: list[None] = []
    verified = verify_table(engine, zone, current(engine, "t"), lambda: seen.append(None))
    assert verified.report is not None
    assert (verified.report.compared, verified.report.differences, len(seen)) == (1, [], 1)
    sql.run(engine, "UPDATE mirrorgate.landing_files SET file_sha256 = 'ab'")
    verified = verify_table(engine, zone, current(engine, "t"), lambda: None)
    assert verified.report is not None
    assert [one.detail for one in verified.report.differences] == ["its SHA-256 differs"]
