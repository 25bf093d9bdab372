"""What is counted: the functions on the path of a request, and the lines for reading."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from benchmarks.path_length import OTHER_THREADS, WORKLOADS, PathLength, is_insert
from benchmarks.reading_lines import EXACT_PATH, FOLDERS, OTHERS, reading_lines

ROOT = Path(__file__).parents[2]


@pytest.mark.thorough
@pytest.mark.parametrize("source_format", WORKLOADS)
def test_the_path_leads_from_the_head_of_the_post_to_the_insert_of_the_block(source_format: str) -> None:
    command = [sys.executable, "-m", "benchmarks.path_length", source_format, "--json"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=120).stdout

    path = msgspec.json.decode(printed, type=PathLength)

    assert path.functions == sum(len(set(functions)) for functions in path.modules.values())
    functions = {function for found in path.modules.values() for function in found}
    assert not [name for name in functions if name.rpartition(".")[2].startswith("<")]
    assert {"BoundedHttpProtocol.data_received", "Ingest.accept"} <= functions
    assert "app/staging/writer/group_commit.py" in path.modules, "the work of other threads counts"
    assert "GroupTransaction._commit" not in functions, "COMMIT follows the insert"
    assert all((ROOT / module).is_file() and module.startswith("app/") for module in path.modules)


def test_the_threads_left_out_are_threads_of_the_api() -> None:
    architecture = (ROOT / "docs" / "contribute" / "architecture.md").read_text(encoding="utf-8")

    assert [name for name in OTHER_THREADS if f"`{name}`" not in architecture] == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("WITH x AS (SELECT 1) INSERT INTO mirrorgate.block_payloads (table_id) VALUES (1)", True),
        (b"COPY mirrorgate.staged_blocks (table_id) FROM STDIN", True),
        ("INSERT INTO mirrorgate.row_images (table_id) VALUES (1)", False),
        ("SELECT FROM mirrorgate.staged_blocks", False),
        (None, False),
    ],
)
def test_the_insert_of_a_block_or_payload_ends_the_path(query: object, expected: bool) -> None:
    assert is_insert(query) is expected


def test_every_listed_module_and_folder_exists() -> None:
    gone = [name for name in (*EXACT_PATH, *OTHERS) if not (ROOT / name).is_file()]
    assert gone == [], "update the set in benchmarks/reading_lines.py"
    assert [folder for folder in FOLDERS if not any((ROOT / folder).glob("*.py"))] == []


def test_every_module_of_the_folders_counts_unless_it_is_listed() -> None:
    lines = reading_lines()
    modules = {str(path.relative_to(ROOT)) for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    assert modules - EXACT_PATH <= lines.keys()
    assert not lines.keys() & EXACT_PATH
    assert lines["app/formats/json/quote_accounting.py"] == len(
        (ROOT / "app/formats/json/quote_accounting.py").read_text(encoding="utf-8").splitlines()
    )


def test_key_counters_of_the_exact_path_count_as_strictness(tmp_path: Path) -> None:
    for name in (*EXACT_PATH, *OTHERS):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    messages = "x = 1\n\ndef count_keys(a):\n    return a\n\ndef other():\n    return 0\n"
    (tmp_path / "app/formats/arcion/messages.py").write_text(messages)
    lines = reading_lines(tmp_path)
    assert {name: count for name, count in lines.items() if count} == {
        "app/formats/arcion/messages.py (counters of keys)": 2
    }
