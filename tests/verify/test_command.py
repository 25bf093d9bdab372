"""`mirrorgate verify` on the command line: shapes, exit statuses, and what people see."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from mirrorgate_zone.verify.codes import Finding, FindingCode
from mirrorgate_zone.verify_output import MAX_PLACES, print_report
from tests.support.cli_output import first_json
from tests.support.processes import REPOSITORY
from tests.support.publishers import parquet_name
from tests.verify.conftest import Run
from tests.verify.zones import Zone, rows


def test_a_clean_zone_exits_with_0(zone: Zone, run: Run) -> None:
    zone.clean("orders")
    ended = run("verify", zone.root)
    assert (ended.status, ended.output) == (0, "1 table, 2 files: nothing found\n")


def test_warnings_alone_exit_with_0(zone: Zone, run: Run) -> None:
    zone.clean().raw("notes.md", b"x")
    ended = run("verify", zone.root)
    assert ended.status == 0
    assert "warning  foreign_file\n           t/notes.md: " in ended.output


def test_an_error_exits_with_1_and_names_place_and_remedy(zone: Zone, run: Run) -> None:
    zone.clean("sales.schema/orders").file(4, rows(4))
    ended = run("verify", zone.root)
    assert ended.status == 1
    lines = [" ".join(line.split()) for line in ended.output.splitlines()]
    assert lines[:2] == ["sales.orders", "error number_gap"]
    assert f"sales.schema/orders/{parquet_name(3)}" in ended.output
    assert any(line.startswith("-> Publish the missing file") for line in lines)
    assert lines[-1] == "1 table, 3 files: 1 error, 0 warnings, 0 advice"


def test_json_has_the_shape_that_scripts_rely_on(zone: Zone, run: Run) -> None:
    zone.clean("sales.schema/orders").file(4, rows(4))
    zone.clean("other")
    (zone.root / "_partnerEvents.json").unlink()
    ended = run("verify", zone.root, "--json")
    document = first_json(ended.output)
    assert ended.status == 1
    assert list(document) == ["zone", "tables", "files", "findings"]
    assert (document["zone"], document["tables"], document["files"]) == (str(zone.root), 2, 5)
    events, gap = document["findings"]
    assert list(gap) == ["code", "severity", "table", "file", "detail", "remedy"]
    assert (gap["code"], gap["severity"], gap["table"]) == ("number_gap", "error", "sales.orders")
    assert gap["file"] == f"sales.schema/orders/{parquet_name(3)}"
    assert (events["code"], events["severity"], events["table"]) == ("partner_events_missing", "advice", None)


def test_only_the_named_tables_are_checked(zone: Zone, run: Run) -> None:
    zone.clean("a").file(4, rows(4))
    zone.clean("dbo.schema/b")
    assert run("verify", zone.root, "--table", "DBO.b").status == 0
    assert run("verify", zone.root, "--table", "dbo.b", "--table", "a").status == 1


@pytest.mark.parametrize(
    ("arguments", "problem", "remedy"),
    [
        (["nowhere"], "there is nothing at", "Give the folder or address of a landing zone."),
        (["empty"], "has no table folder", "Give the folder that has the table folders."),
        (["zone/t"], "is a table folder", "Give the folder above it"),
        (["item"], "has no table folder", "Files/LandingZone?"),
        (["zone/_partnerEvents.json"], "there is no folder at", "Give the folder or address of a landing zone."),
        (["zone", "--table", "missing"], "the zone has no table missing", "The zone has 1: t."),
        (["s3://bucket/zone"], "its scheme is s3", "Use a folder"),
        (["abfss://a@b.dfs.core.windows.net"], "it names no folder", "Use a folder"),
    ],
)
def test_what_cannot_be_checked_exits_with_2_and_a_remedy(
    zone: Zone, run: Run, monkeypatch: pytest.MonkeyPatch, arguments: list[str], problem: str, remedy: str
) -> None:
    zone.clean()
    (zone.root.parent / "empty").mkdir()
    (zone.root.parent / "item" / "Files" / "LandingZone").mkdir(parents=True)
    monkeypatch.chdir(zone.root.parent)
    ended = run("verify", *arguments)
    assert ended.status == 2
    assert problem in ended.errors
    assert remedy in ended.errors
    assert ended.output == ""


def test_rows_are_read_unless_the_command_says_otherwise(zone: Zone, run: Run) -> None:
    zone.clean().file(3, rows(1))
    assert "duplicate_insert" in run("verify", zone.root).output
    ended = run("verify", zone.root, "--no-rows")
    assert (ended.status, ended.output) == (0, "1 table, 3 files: nothing found\n")


def test_a_new_zone_without_tables_is_clean(zone: Zone, run: Run) -> None:
    assert run("verify", zone.root).status == 0


def test_names_of_any_bytes_are_printed_and_never_end_the_command(zone: Zone) -> None:
    table = zone.clean("t\x1b[31m")
    table.raw("\x1b]0;title\x07.txt", b"x")
    (Path(os.fsdecode(os.fsencode(zone.root) + b"/\xff\xfe"))).mkdir()
    (Path(os.fsdecode(os.fsencode(zone.root) + b"/\xff\xfe/\xfd.bin"))).touch()
    command = [sys.executable, "-m", "mirrorgate.cli", "verify", str(zone.root)]
    for more in ([], ["--json"]):
        ended = subprocess.run([*command, *more], cwd=REPOSITORY, capture_output=True, timeout=60, check=False)
        assert ended.returncode == 1, ended.stderr
        assert b"\x1b" not in ended.stdout
        assert b"Traceback" not in ended.stderr


def test_many_places_of_one_code_are_shortened(zone: Zone) -> None:
    found = [
        Finding(FindingCode.NAME_NOT_A_NUMBER, "the name must be 20 digits", "t", f"t/{number}-guid.parquet")
        for number in range(1_000)
    ]
    shown = io.StringIO()
    print_report(found, 1, 1_000, Console(file=shown, width=100))
    assert shown.getvalue().count("guid.parquet") == MAX_PLACES
    assert "and 995 more, which --json shows" in shown.getvalue()
    assert max(map(len, shown.getvalue().splitlines())) <= 100
