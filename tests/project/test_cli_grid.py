"""Output for people is readable at 80 columns and never crops a name or number."""

import io
from pathlib import Path
from typing import Any

from rich.console import Console

from app.cli import output as cli_grid
from app.cli.output import print_status, status_grid
from app.cli.tables.show import status
from mirrorgate.cli.grid import Grid
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.http import GatewayClient
from mirrorgate.text import amount

REASON = "landing_folder_lost: folder q.schema/folder is gone although it held published files"


QUARANTINED = {
    "kind": "table_quarantined",
    "severity": "critical",
    "detail": REASON,
    "remedy": "Find it.",
    "since": None,
}


def table(**given: Any) -> dict[str, Any]:
    rows = {"rows": 1_234_567}
    lag = {"rows": 0, "oldest_seconds": 0.0}
    told = {"table": "HR.EMPLOYEES", "generation": 1, "state": "active", "state_reason": None, "processed": None}
    counts = {"accepted": rows, "staged": rows, "published": rows | {"files": 12}, "lag": lag}
    return {**told, **counts, "dead_letters": {"waiting": 0}, "troubles": [], **given}


def printed(grid: Grid, width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    grid.print(console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def shown(tables: list[dict[str, Any]], width: int = 80, *, wide: bool = False) -> list[str]:
    return printed(status_grid(tables, width, wide=wide), width)


def test_status_fits_80_columns_with_a_line_for_each_table() -> None:
    quarantined = table(table="q.folder", state="quarantined", state_reason=REASON, troubles=[QUARANTINED])
    lines = shown([table(), quarantined])
    assert max(map(len, lines)) <= 80
    assert [line.split()[:4] for line in lines[1:]] == [
        ["HR.EMPLOYEES", "1", "active", "1,234,567"],
        ["q.folder", "1", "quarantined", "1,234,567"],
    ]


def test_what_is_wrong_with_a_table_is_shown_below_the_status(capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_status([table(), table(table="q.folder", state="quarantined", state_reason=REASON, troubles=[QUARANTINED])])
    below = " ".join(capsys.readouterr().out.partition("\n\n")[2].split())
    assert below.startswith(f"q.folder: quarantined: {REASON}")
    assert "remedy: " in below


def test_a_mirror_adds_a_column() -> None:
    mirror = {"state": "in_step", "version": 1_234, "file_number": 1_235, "pending_files": 0, "reason": None}
    reason = {"code": "landing_file_gap", "detail": "waits for file 8", "remedy": "Publish file 8."}
    behind = mirror | {"state": "behind", "pending_files": 3}
    waiting = mirror | {"state": "waiting", "version": None, "file_number": 7, "reason": reason}
    tables = [table(mirror=mirror), table(mirror=behind), table(mirror=waiting), table(mirror=None), table()]
    lines = shown(tables)
    assert max(map(len, lines)) <= 80
    assert [line[lines[0].index("mirror") :] for line in lines] == [
        "mirror",
        "ok",
        "-3",
        "waiting",
        "-",
        "-",
    ]
    wide = shown(tables, wide=True)
    assert "  -3 (version 1,234, file 1,235)  " in wide[2]
    assert "  waiting  " in wide[3]
    assert "mirror" not in shown([table(), table(mirror=None)])[0]


def test_a_failing_table_shows_since_when_and_its_remedy(capsys: Any) -> None:
    detail = "storage_failed: ENOSPC (No space left on device) at /zone/t (12 tries in a row)"
    since = "2026-11-22T03:29:40.41+00:00"
    trouble = {"kind": "table_failing", "severity": "critical", "detail": detail, "remedy": "Free it.", "since": since}
    assert shown([table(failing={})])[1].split()[2] == "active"
    print_status([table(failing={"code": "storage_failed"}, troubles=[trouble])])
    above, _, below = capsys.readouterr().out.partition("\n\n")
    assert " failing " in above
    assert f"failing: {detail} (since 2026-11-22 03:29:40) remedy: Free it." in " ".join(below.split())


def test_a_table_that_is_dropped_says_what_it_waits_for(capsys: Any) -> None:
    print_status([table(state="dropping", state_reason="it waits for Fabric")])
    assert capsys.readouterr().out.endswith("HR.EMPLOYEES: dropping: it waits for Fabric\n")


def test_the_status_says_that_nothing_is_published_and_needs_no_probe_for_it(capsys: Any, monkeypatch: Any) -> None:
    away = "1 of 1 drains publish nothing: landing_zone_away."
    answers = iter([{"api": "ok", "drain": away, "tables": "1 table is quarantined"}, None])

    def parts(_client: GatewayClient) -> dict[str, str]:
        answer = next(answers)
        if answer is None:
            raise RejectedInput(Code.FORBIDDEN, "the proxy says no")
        return answer

    monkeypatch.setattr(GatewayClient, "get", lambda *_: {"tables": [table()]})
    monkeypatch.setattr(GatewayClient, "parts", parts)
    status(url="http://127.0.0.1:1", key="key", data_dir=Path(), wide=False, as_json=False)
    assert capsys.readouterr().out.endswith(f"\n\ndrain: {away}\n")
    status(url="http://127.0.0.1:1", key="key", data_dir=Path(), wide=False, as_json=False)
    assert "drain" not in capsys.readouterr().out


def test_names_and_numbers_are_never_cropped() -> None:
    name = "a_schema_with_a_long_name." + "x" * 60
    for wide in (False, True):
        lines = shown([table(table=name)], wide=wide)
        assert name in lines[1]
        assert "1,234,567" in lines[1]
        assert len(lines) == 2
    grid = Grid(("file", "rows"), right=("rows",))
    grid.add("00000000000000000001.parquet", "1,000")
    assert printed(grid, 20)[1] == "00000000000000000001.parquet  1,000"


def test_only_the_last_column_wraps_and_only_between_words() -> None:
    grid = Grid(("id", "what"), text=True)
    grid.add("1", "value is not a number " * 5)
    lines = printed(grid, 40)
    assert max(map(len, lines)) <= 40
    assert " ".join(line.strip() for line in lines[1:]) == "1   " + ("value is not a number " * 5).strip()


def test_dead_letters_that_wait_have_a_column_in_the_status() -> None:
    assert "dead letters" not in shown([table()])[0]
    lines = shown([table(), table(dead_letters={"waiting": 3})])
    assert [lines[0].endswith("dead letters"), lines[2].split()[-1]] == [True, "3"]


def test_a_narrow_terminal_leaves_out_the_columns_that_say_nothing_and_a_wide_one_none() -> None:
    mirror = {"state": "waiting", "version": None, "file_number": 7, "pending_files": 0, "reason": None}
    tables = [table(mirror=mirror, dead_letters={"waiting": 3})]
    titles = ["table", "state", "accepted", "published", "lag", "oldest", "mirror", "dead", "letters"]
    lines = shown(tables)
    assert (lines[0].split(), len(lines), max(map(len, lines)) <= 80) == (titles, 2, True)
    assert {"gen", "processed"} <= {*shown(tables, 120)[0].split()}
    assert "processed" not in shown([*tables, table(generation=2)], 90)[0]
    renewed = [table(mirror=mirror, generation=2, processed={"rows": 5, "error": None}, dead_letters={"waiting": 3})]
    assert "oldest" not in shown(renewed, 90)[0]
    assert "processed" in shown(renewed, 90)[0]
    assert "oldest" in shown(renewed, wide=True)[0]


def test_lines_into_a_pipe_are_not_broken_unless_columns_are_asked_for(capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    quarantined = table(table="q.folder", state="quarantined", state_reason=REASON, troubles=[QUARANTINED])
    print_status([quarantined])
    title, row, empty, reason, remedy = capsys.readouterr().out.splitlines()
    assert (title.split()[0], row.split()[0], empty) == ("table", "q.folder", "")
    assert reason == f"q.folder: quarantined: {REASON}"
    assert remedy.startswith("  remedy: ")
    monkeypatch.setenv("COLUMNS", "40")
    print_status([quarantined])
    assert len(capsys.readouterr().out.splitlines()) > 5


def test_without_tables_the_status_says_what_to_do(capsys: Any) -> None:
    print_status([])
    assert capsys.readouterr().out == "no tables yet; register one: mirrorgate tables register --help\n"


def test_one_is_singular() -> None:
    assert [amount(number, "change") for number in (0, 1, 2_000)] == ["0 changes", "1 change", "2,000 changes"]


def test_text_from_a_gateway_is_no_markup() -> None:
    grid = Grid(("what",))
    grid.add("[bold]x[/bold]")
    assert printed(grid)[1] == "[bold]x[/bold]"
    assert cli_grid.moment("2026-11-22T03:29:40.4155+00:00") == "2026-11-22 03:29:40"
