"""`mirrorgate certify`: a careful publisher passes every exercise, a careless one fails those that it breaks."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from mirrorgate.cli.main import app
from mirrorgate_zone.emulator.exercises import (
    EXERCISES,
    STEPS,
    Event,
    Exercise,
    Observation,
    Step,
    Verdict,
    When,
    is_data,
    judge,
    meets,
    other_uploads,
    start_of,
)
from mirrorgate_zone.emulator.faults import answer
from tests.project.facts import REPOSITORY
from tests.support.waiting import wait_until

PUBLISHERS = Path(__file__).parent / "publishers"
BROKEN = {
    "atomic_files",
    "lost_request",
    "crash_during_upload",
    "crash_before_publish",
    "crash_before_checkpoint",
    "second_file_fails",
    "two_publishers",
    "throttled",
    "upload_fails",
    "expired_token",
    "old_rows_again",
    "change_type",
}
"""What tests/emulator/publishers/bad.py does wrong."""
WORK = {
    "load-1": (4, {"id": [1, 2], "v": ["a", "b"]}),
    "load-2": (4, {"id": [3], "v": ["c"]}),
    "change-1": (4, {"id": [2, 4], "v": ["B", "d"]}),
    "change-2": (2, {"id": [1], "v": ["a"]}),
    "add_column-1": (4, {"id": [5], "v": ["e"], "more": ["f"]}),
    "change_type-1": (4, {"id": [1, 2, 3], "v": [1, 2, 3]}),
}
"""The files of both publishers, by step: a row marker and columns."""
ID = "6293e521-0c07-4dd9-b395-3f0c6e2a3d69"
FILE = "t/00000000000000000001.parquet"
NEXT = "t/00000000000000000002.parquet"
RUNNER = CliRunner()


@pytest.mark.parametrize(("name", "broken"), [("good", set()), ("bad", BROKEN)])
def test_a_publisher_fails_exactly_the_exercises_that_it_breaks(
    name: str, broken: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FILES", str(tmp_path))
    for file, (marker, columns) in WORK.items():
        markers = pa.array([marker] * len(columns["id"]), pa.int32())
        pq.write_table(pa.table({**columns, "__rowMarker__": markers}), tmp_path / file)
    outputs = [tmp_path / "results.json", tmp_path / "page.md"]
    options = ["--json", str(outputs[0]), "--page", str(outputs[1])]
    ended = RUNNER.invoke(app, ["certify", *options, "--", sys.executable, str(PUBLISHERS / f"{name}.py")])
    results = json.loads(outputs[0].read_text())["exercises"]
    failed = {one["name"]: one["evidence"] for one in results if one["verdict"] == "failed"}
    assert failed.keys() == broken, failed
    assert {one["verdict"] for one in results} == {"passed"} | ({"failed"} if broken else set())
    assert ended.exit_code == (1 if broken else 0)
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", outputs[1].read_text(), re.MULTILINE)
    assert rows == [(one["name"], one["verdict"]) for one in results]


@pytest.mark.parametrize(
    ("program", "status", "verdict", "evidence"),
    [
        ("raise SystemExit(77)", 0, "not exercised", "the command does not have the step load"),
        ("exit('no source')", 1, "failed", "load: after 5 starts exit status 1: no source"),
    ],
)
def test_how_a_command_ended_is_the_evidence(
    program: str, status: int, verdict: str, evidence: str, tmp_path: Path
) -> None:
    file = tmp_path / "results.json"
    command = ["certify", "--json", str(file), "--only", "rows_arrive", "--", sys.executable, "-c", program]
    assert RUNNER.invoke(app, command).exit_code == status
    (result,) = json.loads(file.read_text())["exercises"]
    assert (result["verdict"], result["evidence"]) == (verdict, [evidence])


@pytest.mark.parametrize(
    "arguments",
    [["--only", "unknown", "--", "true"], [], ["--json", "/no/folder", "--", "true"], ["--page", "/", "--", "true"]],
)
def test_a_wrong_call_is_told(arguments: list[str]) -> None:
    assert RUNNER.invoke(app, ["certify", *arguments]).exit_code == 2


def test_sigterm_ends_the_publisher_and_removes_the_files(tmp_path: Path) -> None:
    program = "import os, signal, sys; open(sys.argv[1], 'w').write(str(os.getpid())); signal.pause()"
    command = [sys.executable, "-m", "mirrorgate.cli", "certify", "--", sys.executable, "-c", program, "pid"]
    folder = tmp_path / "temporary"
    folder.mkdir()
    with subprocess.Popen(command, cwd=tmp_path, env=os.environ | {"TMPDIR": str(folder)}) as process:
        wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), within=60, what="it starts")
        process.terminate()
        assert process.wait(60) == 130
    assert not list(folder.iterdir())
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_the_list_has_every_step_and_every_exercise() -> None:
    listed = RUNNER.invoke(app, ["certify", "--list"]).output
    assert re.findall(r"^  (\w+)", listed, re.MULTILINE) == [*STEPS, *(exercise.name for exercise in EXERCISES)]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("t/1.parquet", True),
        ("s.schema/t/1.parquet", True),
        ("s.schema/t", False),
        ("t/_1.parquet", False),
        ("t", False),
    ],
)
def test_a_data_file_is_visible_in_the_folder_of_a_table(path: str, expected: bool) -> None:
    assert is_data(path) is expected


def exercise(name: str) -> Exercise:
    return next(one for one in EXERCISES if one.name == name)


def published(path: str, digest: str = "a", at: float = 0.0, operation: str = "rename") -> Event:
    return Event(at, operation, path, "t/_hidden" if operation == "rename" else "", 201, files=((path, digest),))


METADATA = published("t/_metadata.json", '["id"]', operation="flush")
PLAIN = Observation([METADATA, published(FILE)], [(Step.LOAD, {"t": Counter(["{}"])})], landed=1)


@pytest.mark.parametrize(
    ("name", "events", "evidence"),
    [
        ("atomic_files", [METADATA, published(FILE, operation="put")], f"put {FILE}: 201"),
        ("immutable_files", [METADATA, published(FILE), published(FILE, "b")], "(other content)"),
        ("immutable_files", [METADATA, published(FILE), Event(1.0, "delete", FILE, status=200)], "(a published file)"),
        ("dense_numbers", [METADATA, published(NEXT)], "(the file before it was 0)"),
        ("dense_numbers", [METADATA, published("t/guid.parquet")], "(no number of 20 digits)"),
        ("metadata_first", [published(FILE), METADATA], "(no _metadata.json yet)"),
        ("metadata_first", [METADATA, published("t/_metadata.json", '["v"]'), published(FILE)], "(other keyColumns)"),
    ],
)
def test_the_journal_shows_what_is_wrong(name: str, events: list[Event], evidence: str) -> None:
    result = judge(exercise(name), replace(PLAIN, events=events), PLAIN)
    assert result.verdict is Verdict.FAILED
    assert evidence in result.evidence[0]
    assert judge(exercise(name), PLAIN, PLAIN).verdict is Verdict.PASSED


def test_a_folder_that_was_deleted_begins_again_with_metadata_and_file_1() -> None:
    again = [METADATA, published(FILE), Event(1.0, "delete", "t", status=200), METADATA, published(FILE, "b")]
    for name in ("immutable_files", "dense_numbers", "metadata_first"):
        assert judge(exercise(name), replace(PLAIN, events=again), PLAIN).verdict is Verdict.PASSED
    del again[3]
    assert judge(exercise("metadata_first"), replace(PLAIN, events=again), PLAIN).verdict is Verdict.FAILED


def test_the_action_for_github_runs_the_command_and_shows_the_page(tmp_path: Path) -> None:
    action = yaml.safe_load((REPOSITORY / ".github/actions/certify/action.yml").read_text())
    step = action["runs"]["steps"][-1]
    given = {"command": "echo no source; exit 3", "only": "rows_arrive atomic_files"}
    inputs = {name: given.get(name, said.get("default", "")) for name, said in action["inputs"].items()}
    variables = {name: inputs[value[len("${{ inputs.") : -len(" }}")]] for name, value in step["env"].items()}
    programs = tmp_path / "mirrorgate" / "bin"
    programs.mkdir(parents=True)
    (programs / "mirrorgate").symlink_to(Path(sys.executable).parent / "mirrorgate")
    variables |= {"RUNNER_TEMP": str(tmp_path), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    ended = subprocess.run(["bash", "-ec", step["run"]], cwd=tmp_path, env=os.environ | variables, timeout=120)
    assert ended.returncode == 1
    assert "exit status 3: no source" in (tmp_path / "summary").read_text()
    assert len(json.loads((tmp_path / "certified.json").read_text())["exercises"]) == 2


def test_an_upload_that_never_becomes_data_meets_no_fault() -> None:
    plain = [
        Event(0.0, "append", f"_scratch/{ID}/probe", status=202),
        Event(0.0, "append", f"_scratch/{ID}/1/{ID}", status=202),
        Event(0.0, "rename", FILE, f"_scratch/{ID}/1/{ID}", 201, files=((FILE, "a"),)),
    ]
    others = other_uploads(plain)
    other = ID.replace("b", "3")
    assert not meets(When.UPLOAD, "append", f"_scratch/{other}/probe", others)
    assert meets(When.UPLOAD, "append", f"_scratch/{other}/2/{other}", others)
    assert meets(When.UPLOAD, "append", "t/_abcdef", others)


@pytest.mark.parametrize(("after", "verdict"), [(0.2, Verdict.FAILED), (1.1, Verdict.PASSED)])
def test_a_throttled_request_waits(after: float, verdict: Verdict) -> None:
    fault = answer(429, "TooManyRequests", retry_after="1")
    met = Event(5.0, "rename", FILE, fault=fault, what="answered with 429")
    seen = replace(PLAIN, events=[METADATA, met, published(FILE, at=5.0 + after)], rows=[(Step.CHANGE, {})])
    assert judge(exercise("throttled"), seen, replace(PLAIN, rows=[*PLAIN.rows, (Step.CHANGE, {})])).verdict is verdict


def test_without_a_request_that_meets_the_fault_there_is_no_verdict() -> None:
    result = judge(exercise("second_file_fails"), PLAIN, PLAIN)
    assert (result.verdict, result.evidence) == (
        Verdict.NOT_EXERCISED,
        ["no request met the fault: there is no file 2"],
    )


def test_a_schema_change_that_publishes_nothing_has_no_verdict() -> None:
    seen = replace(PLAIN, events=[*PLAIN.events, start_of(Step.CHANGE_TYPE, 9.0)])
    assert judge(exercise("change_type"), seen, PLAIN).verdict is Verdict.NOT_EXERCISED


def test_the_published_table_has_every_exercise_passed() -> None:
    published = (REPOSITORY / "docs/contribute/certified.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.+?) \|", published, re.MULTILINE)
    assert rows == [(exercise.name, "passed", exercise.about) for exercise in EXERCISES]


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_mirrorgates_own_gateway_passes_every_exercise(tmp_path: Path) -> None:
    page, publisher = tmp_path / "page.md", REPOSITORY / "examples/certify/publish.py"
    command = ["certify", "--timeout", "400", "--page", str(page), "--", sys.executable, str(publisher)]
    assert RUNNER.invoke(app, command).exit_code == 0, page.read_text()
    assert f": {len(EXERCISES)} passed." in page.read_text()
