"""`mirrorgate send --follow` with the real API: it sends each complete file of a folder once, in order."""

import gzip
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.api.calls import ADMIN_KEY, Gateway
from tests.api.commands import Ended, Terminal, lines, staged
from tests.support.cli_output import first_json
from tests.support.processes import started
from tests.support.waiting import wait_until

Drain = Callable[..., Ended]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder


@pytest.fixture
def drain(
    gateway: Gateway,
    api_address: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Drain:
    """Send what is in the folder, then end."""
    monkeypatch.chdir(folder.parent)
    gateway.register("t", {"id": "int64", "note": "string"}, ["id"])
    terminal = Terminal(api_address, monkeypatch, capsys)

    def drain(*options: object) -> Ended:
        settle = () if "--done-marker" in options else ("--settle", 0)
        common = ("--format", "arcion", "--producer", "p", *settle, "--poll", 0.01)
        return terminal.run("send", "--follow", folder, "--once", *common, *options)

    return drain


def write(folder: Path, name: str, first: int, count: int = 2) -> Path:
    content = b"\n".join(lines(count, first))
    file = folder / name
    file.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return file


def is_sent(state: Path, name: str) -> bool:
    journal = state / "p.journal"
    return journal.exists() and f'{{"line":"finished","file":"{name}"' in journal.read_text()


def keys(engine: sa.Engine) -> list[int]:
    return [row[0] for row in staged(engine, "t")]


def test_files_are_sent_once_in_the_order_of_their_names(drain: Drain, folder: Path, api_engine: sa.Engine) -> None:
    write(folder, "b.json.gz", 2)
    write(folder, "a.json", 0)
    (folder / "sub").mkdir()
    ended = drain("--json")
    assert (ended.status, ended.report["files"], ended.report["changes"]) == (0, 2, 4)
    assert "a.json: sent completely, 2 messages" in ended.errors
    write(folder, "c.json", 4)
    assert drain("--json").report["files"] == 1
    assert drain("--json").report["requests"] == 0
    assert keys(api_engine) == list(range(6))
    assert {path.name for path in folder.iterdir()} == {"a.json", "b.json.gz", "c.json", "sub"}


def test_a_file_that_comes_late_is_sent_and_told(drain: Drain, folder: Path, api_engine: sa.Engine) -> None:
    write(folder, "b", 0)
    drain()
    write(folder, "a", 2)
    assert "a is late: b, which sorts after it, was already sent" in drain().errors
    assert keys(api_engine) == list(range(4))


def test_names_of_unfinished_files_are_passed_over(drain: Drain, folder: Path, api_engine: sa.Engine) -> None:
    for number, name in enumerate([".x", "_x", "x.tmp", "x.part", "x~", "x.json", "x.log", "x.csv"]):
        write(folder, name, 2 * number)
    assert drain("--only", "*.json", "--only", "*.log", "--ignore", "*.log", "--json").report["files"] == 1
    assert keys(api_engine) == [10, 11]


def test_a_done_marker_says_that_a_file_is_complete(drain: Drain, folder: Path, api_engine: sa.Engine) -> None:
    done = folder.parent / "done"
    done.mkdir()
    write(folder, "a", 0)
    (folder / "a.ok").touch()
    assert drain("--done-marker", ".ok", "--done-dir", done, "--json").report["files"] == 1
    assert list(folder.iterdir()) == []
    assert {path.name for path in done.iterdir()} == {"a", "a.ok"}
    (done / "a").unlink()
    write(folder, "a", 2)  # another file under the same name
    (folder / "a.ok").touch()
    assert drain("--done-marker", ".ok", "--done-dir", done, "--json").report["files"] == 1
    assert keys(api_engine) == list(range(4))


def test_files_can_come_in_the_order_of_their_times(drain: Drain, folder: Path, api_engine: sa.Engine) -> None:
    for name, first, modified in (("a", 2, 2_000), ("b", 0, 1_000)):
        os.utime(write(folder, name, first), (modified, modified))
    drain("--sort", "modified")
    assert keys(api_engine) == list(range(4))


def test_a_rejected_file_stops_it_until_it_is_mended_or_moved_away(
    drain: Drain, folder: Path, api_engine: sa.Engine
) -> None:
    write(folder, "a", 0)
    (folder / "b").write_bytes(b"\n".join(lines(4, 2, _4="x")))
    write(folder, "c", 6)
    ended = drain("--batch", 1)
    assert ended.status == 1
    assert "error bad_value: b: byte " in ended.errors
    assert keys(api_engine) == list(range(4))
    (folder / "b").write_bytes(b"\n".join(lines(4, 2)))
    assert drain("--batch", 3).status == 0
    (folder / "d").write_bytes(b"no json")
    write(folder, "e", 8)
    assert drain().status == 1
    (folder / "d").unlink()
    assert drain().status == 0
    assert keys(api_engine) == list(range(10))


def test_a_file_that_changes_after_it_was_sent_stops_it(drain: Drain, folder: Path, api_engine: sa.Engine) -> None:
    file = write(folder, "a", 0)
    drain()
    file.write_bytes(b"\n".join(lines(3)))
    ended = drain()
    assert ended.status == 1
    assert "a was sent completely, 2 messages, and has changed since" in ended.errors
    assert keys(api_engine) == [0, 1]


def test_a_file_that_is_cut_off_is_rejected_after_what_it_holds(
    drain: Drain, folder: Path, api_engine: sa.Engine
) -> None:
    whole = gzip.compress(b"\n".join(lines(2_000)))
    (folder / "a.gz").write_bytes(whole[: len(whole) // 2])
    ended = drain("--batch", 10)
    assert ended.status == 1
    assert "error bad_encoding: a.gz: the gzip stream ends in the middle of its data" in ended.errors
    (folder / "a.gz").write_bytes(whole)
    assert drain("--batch", 200).status == 0
    assert keys(api_engine) == list(range(2_000))


def test_it_goes_on_with_what_comes_until_it_is_ended(
    gateway: Gateway, api_address: str, folder: Path, api_engine: sa.Engine
) -> None:
    gateway.register("t", {"id": "int64", "note": "string"}, ["id"])
    write(folder, "a", 0)
    state = folder.parent / "state"
    common = ("--format", "arcion", "--producer", "p", "--state-dir", state, "--settle", "0.05", "--poll", "0.02")
    connection = ("--url", api_address, "--key", ADMIN_KEY, "--json")
    with started("app.cli", "send", "--follow", folder, *common, *connection) as process:
        wait_until(lambda: is_sent(state, "a"), within=60, what="the first file is sent")
        write(folder, "b", 2)
        wait_until(lambda: is_sent(state, "b"), within=60, what="the second file is sent")
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    report = first_json(output)
    assert keys(api_engine) == [0, 1, 2, 3]
    assert (report["files"], report["changes"], report["producer"]["sequence"]) == (2, 4, 2)
    assert "to send the rest, run the same command again" in errors


def test_subfolders_name_tables_and_a_rejected_file_holds_up_its_table_only(
    drain: Drain, gateway: Gateway, folder: Path, api_engine: sa.Engine
) -> None:
    done = folder / "sent"
    done.mkdir()
    gateway.register("sales.t", {"id": "int64", "note": "string"}, ["id"])
    for path, first in (("t/b/2.json", 2), ("t/a/1.json", 0), ("t/c.json", 4), ("sales.t/x.json", 6)):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        write(folder, path, first)
    for path in ("t/b/2.json", "sales.t/y.json"):
        (folder / path).write_bytes(b"no json")
    write(folder, "other.json", 0)
    options = ("--table-from-path", "{table}/…", "--override", "--done-dir", done, "--json")
    ended = drain(*options)
    assert ended.status == 1
    assert "t stopped, the other tables continue: malformed_json: t/b/2.json: " in ended.errors
    assert "other.json is left out: it matches no --table-from-path" in ended.errors
    assert (keys(api_engine), [row[0] for row in staged(api_engine, "sales.t")]) == ([0, 1], [6, 7])
    write(folder, "t/b/2.json", 2)
    ended = drain(*options)
    assert ended.status == 1
    assert ended.report["producers"] == [{"producer": "p@t", "sequence": 3}, {"producer": "p@sales.t", "sequence": 1}]
    assert keys(api_engine) == list(range(6))
    assert sorted(str(path.relative_to(done)) for path in done.rglob("*.json")) == [
        *("sales.t/x.json", "t/a/1.json", "t/b/2.json", "t/c.json"),
    ]


def test_subfolders_without_a_template_are_sent_in_the_order_of_their_paths(
    drain: Drain, folder: Path, api_engine: sa.Engine
) -> None:
    for path, first in (("2026/11/01.json", 0), ("2026/11/02.json", 2), ("2027.json", 4), ("_sent/x.json", 6)):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        write(folder, path, first)
    assert drain("--recursive", "--json").report["files"] == 3
    assert keys(api_engine) == list(range(6))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--follow", ".", "--producer", "p", "--table-from-path", "{schema}/…"], "has no {table}"),
        (["--follow", ".", "--producer", "p", "--table", "t", "--table-from-path", "{table}/"], "either --table or"),
        (["--follow", "."], "--follow requires --producer"),
        (["--follow", ".", "x", "--producer", "p"], "either a FILE or --follow DIR"),
        ([], "either a FILE or --follow DIR"),
        (["x", "--once"], "are for --follow"),
        (["x", "--settle", "5"], "are for --follow"),
        (["x", "--state-dir", "y"], "--state-dir is for --producer"),
        (["--follow", ".", "--producer", "p", "--done-marker", "x", "--settle", "5"], "either --settle or --done-mark"),
        (["--follow", "nowhere", "--producer", "p"], "does not exist"),
    ],
)
def test_options_that_do_not_fit_are_rejected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    ended = Terminal("http://127.0.0.1:9", monkeypatch, capsys).run("send", *arguments, "--format", "arcion")
    assert ended.status == 2
    assert said in " ".join(ended.errors.replace("│", "").split())
