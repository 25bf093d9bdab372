"""The command line: what it says, in which shape, and how it ends."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from app.cli import output as cli_grid
from app.cli.output import print_status, status_grid
from app.cli.tables.show import status
from app.domain.access.rights import ApiKey
from app.settings import PREFIX, Settings
from mirrorgate.cli import main as cli
from mirrorgate.cli.grid import Grid
from mirrorgate.cli.main import app
from mirrorgate.errors import Code, MirrorgateError, RejectedInput, TemporarilyUnavailable
from mirrorgate.http import GatewayClient
from mirrorgate.text import amount
from tests.project.facts import CLIENT, REPOSITORY, project_table

RUNNER = CliRunner()


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_program_says_its_version(flag: str) -> None:
    assert RUNNER.invoke(app, [flag]).output == f"mirrorgate {version('mirrorgate')}\n"


@pytest.mark.parametrize("command", [[], ["up"], ["tables", "register"]])
def test_a_short_flag_asks_for_help(command: list[str]) -> None:
    answer = RUNNER.invoke(app, [*command, "-h"])
    assert answer.exit_code == 0
    assert "Usage: " in answer.output


@pytest.mark.parametrize(
    ("wanted", "places"),
    [("check", ["'tables check'"]), ("history", ["'mirror history'"]), ("show", ["'tables show'", "'layouts show'"])],
)
def test_a_command_of_a_group_is_named_where_it_is_missing(wanted: str, places: list[str]) -> None:
    answer = RUNNER.invoke(app, [wanted, "sales.orders"])
    said = " ".join(re.sub("[│╭╮╰╯─]", " ", answer.output).split())
    assert answer.exit_code == 2
    assert f"No such command '{wanted}'. Did you mean " in said
    assert all(place in said for place in places)


def test_a_key_is_made_without_a_gateway() -> None:
    made = {RUNNER.invoke(app, ["keys", "generate"]).output.strip() for _ in range(2)}
    assert len({ApiKey.parse(key).key_id for key in made}) == 2


def test_the_settings_are_listed_by_the_program() -> None:
    listed = RUNNER.invoke(app, ["settings"]).output
    assert re.findall(rf"^({PREFIX}\w+)", listed, re.MULTILINE) == [
        f"{PREFIX}{n.upper()}" for n in Settings.model_fields
    ]


def test_the_file_for_spark_submit_is_printed() -> None:
    assert RUNNER.invoke(app, ["drain", "--print-path"]).output.strip() == str(REPOSITORY / "spark_jobs" / "drain.py")


@pytest.mark.parametrize(
    ("program", "module", "end"),
    [
        ("mirrorgate.cli", "app.cli.main", (130, "", "stopped\n")),
        ("mirrorgate.cli", "app.local.up", (130, "", "stopped\n")),
        ("spark_jobs.drain", "app.checks.preflight", (-signal.SIGINT, "", "")),
        ("spark_jobs.mirror", "pyspark", (-signal.SIGINT, "", "")),
    ],
)
def test_ctrl_c_while_a_program_imports_shows_no_traceback(program: str, module: str, end: object) -> None:
    """The real entry point, interrupted when it imports this module."""
    script = f"""
import os, runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), {signal.SIGINT.value})
sys.meta_path.insert(0, Interrupts())
sys.argv = [{program!r}, "up", "--data-dir", "/nowhere/at/all"]
runpy.run_module({program!r}, run_name="__main__")
"""
    ran = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout, ran.stderr) == end


def test_the_installed_program_is_the_one_that_survives_ctrl_c() -> None:
    assert project_table(CLIENT)["scripts"] == {"mirrorgate": "mirrorgate.cli.__main__:main"}
    assert "scripts" not in project_table(), "the gateway adds its commands to those of the client"
    assert not [
        path for path in Path(REPOSITORY / "docs").rglob("*.md") if re.search(r"\bapp\.cli\b", path.read_text())
    ]
    assert {point.name for point in entry_points(group="console_scripts")} >= {"mirrorgate"}


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (RejectedInput(Code.UNKNOWN_TABLE, "there is no table t"), "mirrorgate tables register"),
        (TemporarilyUnavailable(Code.SOURCE_UNAVAILABLE, "s3://a does not answer"), "run the command again"),
    ],
)
def test_an_error_is_answered_in_words_of_the_command_line(
    error: MirrorgateError, remedy: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise error

    monkeypatch.setattr(cli, "app", fails)
    with pytest.raises(SystemExit):
        cli.main()
    assert remedy in capsys.readouterr().err


def test_help_waits_for_no_heavy_import() -> None:
    heavy = {"alembic", "httpx", "pyarrow", "pydantic_settings", "sqlalchemy", "tenacity", "yaml"}
    script = f"import sys, mirrorgate.cli.main; print(*sorted({heavy!r} & {{*sys.modules}}))"
    ran = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert ran.stdout == "\n"


@pytest.mark.parametrize(
    "command", [["status"], ["send"], ["tables", "drop"], ["keys", "list"], ["dead-letters", "show"]]
)
def test_commands_that_call_a_gateway_share_the_options_of_its_connection(
    command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    described = RUNNER.invoke(app, [*command, "--help"]).output
    for expected in ("--url", "--key", "--data-dir", "MIRRORGATE_URL", "MIRRORGATE_API_KEY"):
        assert expected in described


def test_options_of_a_connection_come_from_variables_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MIRRORGATE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("MIRRORGATE_API_KEY", "mg_a_key")
    ended = RUNNER.invoke(app, ["status", "--data-dir", str(tmp_path)])
    assert isinstance(ended.exception, TemporarilyUnavailable)
    assert "http://127.0.0.1:1" in ended.exception.detail


@pytest.mark.parametrize(
    ("shell", "status", "error"),
    [
        ("{} tables show $'t\\xe9st' --url http://127.0.0.1:1 --key mg_a", 2, "error bad_request: "),
        ("PYTHONIOENCODING=ascii {} tables list --help", 0, ""),
        ("PYTHONUNBUFFERED= {} settings > /dev/full", 1, "error bad_request: "),
        ("set -o pipefail; PYTHONUNBUFFERED= {} keys generate | true", 1, ""),
        ("{} keys generate >&-", 0, ""),
        ("PYTHONUNBUFFERED=1 {} keys generate > /dev/full", 1, "error bad_request: "),
    ],
)
def test_text_that_cannot_be_encoded_or_written_shows_no_traceback(shell: str, status: int, error: str) -> None:
    command = shell.format(f"{sys.executable} -m mirrorgate.cli")
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr.startswith(error), "Traceback" in ran.stderr) == (status, True, False)


def test_what_a_terminal_cannot_show_is_escaped_as_in_json() -> None:
    program = "from mirrorgate.cli import main; main.app = lambda: main.print_json({'tést': '😀'}); main.main()"
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    printed = subprocess.check_output([sys.executable, "-c", program], env=environment, timeout=60)
    assert json.loads(printed) == {"tést": "😀"}


@pytest.mark.parametrize(
    "command",
    [
        ["audit", "--hours", "99999999999"],
        ["keys", "create", "--rights", "read", "--days", "99999999999"],
        ["emulator", "--port", "99999"],
    ],
)
def test_a_number_out_of_range_is_wrong_usage(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRRORGATE_API_KEY", "mg_a_key")
    monkeypatch.setenv("MIRRORGATE_URL", "http://127.0.0.1:1")
    assert RUNNER.invoke(app, command).exit_code == 2


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
