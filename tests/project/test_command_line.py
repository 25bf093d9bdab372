"""Every command has help and a version, and ends without a traceback."""

import json
import os
import re
import signal
import subprocess
import sys
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.domain.access.rights import ApiKey
from app.settings import PREFIX, Settings
from mirrorgate.cli import main as cli
from mirrorgate.cli.main import app
from mirrorgate.errors import Code, MirrorgateError, RejectedInput, TemporarilyUnavailable
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
