"""The commands and examples of these pages do what the pages say."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from app.ingest import DebeziumJson
from app.settings import Settings
from tests.api.calls import ADMIN_KEY, Gateway, own_gateway
from tests.sdk.toolchains import NPM_FILES
from tests.support.documents import PROGRAMS, Answer, Example, blocks, examples, run_shell
from tests.support.gateway_parts import folded_rows
from tests.support.http.server import served
from tests.support.ingest_harness import open_harness
from tests.support.processes import REPOSITORY

EXAMPLES = REPOSITORY / "examples"


@pytest.fixture
def address(database_url: str) -> Iterator[str]:
    with own_gateway(database_url) as gateway:
        yield gateway.address


def answers(output: str) -> list[dict[str, Any]]:
    """Return the answers of the gateway, which curl printed one per line."""
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def receipts(*sequences: int) -> str:
    """Return what the example of rows prints."""
    rows = {1: 2, 2: 2, 3: 1}
    return "".join(
        f"{{'table': 'examples.customers', 'generation': 1, 'sequence': {number}, "
        f"'changes': {rows[number]}, 'rows': {rows[number]}}}\n"
        for number in sequences
    )


def test_the_rows_example_of_python_posts_upserts_and_deletes(address: str) -> None:
    commands = f"{sys.executable} {EXAMPLES / 'python' / 'rows.py'}"
    assert run_shell(commands, REPOSITORY, MIRRORGATE_URL=address, MIRRORGATE_API_KEY=ADMIN_KEY) == receipts(1, 2, 3)


def test_the_reload_example_makes_the_table_equal_to_each_version_of_the_file(address: str, tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    command = f"{sys.executable} {EXAMPLES / 'python' / 'reload.py'} {file} shop.prices id"

    def reload(text: str) -> str:
        file.write_text(text, encoding="utf-8-sig")
        return run_shell(command, REPOSITORY, MIRRORGATE_URL=address, MIRRORGATE_API_KEY=ADMIN_KEY)

    assert reload("id,price\n1,10\n2,20\n") == "2 rows loaded, 0 deleted\n"
    with Gateway.at(address, ADMIN_KEY) as client:
        left = client.post("/v1/tables/shop.prices/loads", json={"mode": "full"}).raise_for_status().json()["load"]
        client.rows("shop.prices", {"id": "3", "price": "30"}).raise_for_status()
    file.with_name("prices.csv.load").write_text(f"{left} 0")  # as a run leaves it that was killed before a new version
    assert reload("id,price\n2,25\n") == "1 rows loaded, 2 deleted\n"
    assert not file.with_name("prices.csv.load").exists()


def test_the_rows_example_of_curl_may_be_repeated(address: str) -> None:
    script = str(EXAMPLES / "curl" / "rows.sh")
    first, again = (
        answers(run_shell(script, REPOSITORY, MIRRORGATE_URL=address, MIRRORGATE_API_KEY=ADMIN_KEY)) for _ in range(2)
    )
    assert [answer["receipts"][0]["rows"] for answer in first[1:4]] == [2, 2, 1]
    assert again[1:4] == [answer | {"replayed": True} for answer in first[1:4]]
    assert (first[4]["code"], first[4]["errors"][0]["pointer"]) == ("bad_value", "/seconds")
    assert (first[5]["accepted"]["changes"], again[5]["accepted"]["changes"]) == (5, 5)


def test_the_curl_example_may_be_repeated(address: str) -> None:
    script = str(EXAMPLES / "curl" / "changes.sh")
    first, again = (
        answers(run_shell(script, REPOSITORY, MIRRORGATE_URL=address, MIRRORGATE_API_KEY=ADMIN_KEY)) for _ in range(2)
    )
    returns, _, replicate, rejected, *_ = first
    assert returns["table"] == "examples.returns"
    assert replicate["receipts"][0]["table"] == "examples.STAFF"
    assert (rejected["code"], rejected["errors"][0]["pointer"]) == ("bad_value", "/after/amount")
    for posted in (1, 2):
        assert again[posted] == first[posted] | {"replayed": True}
    assert [status["accepted"]["changes"] for status in again[-2:]] == [2, 1]


def test_the_typescript_example_has_the_packages_that_the_tests_lock() -> None:
    wanted, lock = (json.loads((EXAMPLES / "typescript" / file.name).read_text()) for file in NPM_FILES)
    tested = json.loads(NPM_FILES[1].read_text())["packages"]
    assert wanted["devDependencies"] == lock["packages"].pop("")["devDependencies"]
    assert {name: facts["integrity"] for name, facts in lock["packages"].items()} == {
        name: tested[name]["integrity"] for name in lock["packages"]
    }


PAGE = (REPOSITORY / "examples/debezium-history/README.md").read_text(encoding="utf-8")
GENERATOR = REPOSITORY / "examples/python/debezium_history.py"


def generated(*arguments: str) -> bytes:
    return subprocess.run([sys.executable, GENERATOR, *arguments], capture_output=True, check=True).stdout


def final_rows(*arguments: str) -> list[list[Any]]:
    """Return the rows that the generator's table has in the end, as the table of a gateway has them."""
    return [
        [row["id"], row["customer"], row["total"], moment(row["placed"]), row["paid"]]
        for row in map(json.loads, generated(*arguments, "--table").splitlines())
    ]


def moment(micros: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)


def mirrored(rows: Sequence[dict[str, Any]]) -> list[list[Any]]:
    """Apply landing rows in order, as Fabric does."""
    return [
        [row["id"], row["customer"], str(row["total"]), row["placed"], row.get("paid")]
        for _, row in sorted(folded_rows(rows, "id").items())
    ]


def test_the_page_can_be_followed_and_its_table_is_that_of_the_generator(
    address: str, engine: sa.Engine, tmp_path: Path
) -> None:
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / ".mirrorgate").mkdir()
    (tmp_path / ".mirrorgate" / "admin.key").write_text(ADMIN_KEY)
    start, send = blocks(PAGE, "sh")
    assert start.strip() == "make up ARGS=--mirror"
    script = send.replace("http://127.0.0.1:8480", address)
    assert blocks(PAGE, "text")[0].strip() in run_shell(script, tmp_path, COLUMNS="120")
    with open_harness(engine) as harness:
        rows = mirrored(harness.rows("public.orders"))
    assert rows == final_rows()
    shown = re.search(r"paid\n(.*?)\(5 rows\)", PAGE, re.DOTALL)
    assert shown is not None
    cells = [re.split(r"  +", line.strip()) for line in shown[1].splitlines()]
    assert cells == [[str(a), b, c, str(d), "NULL" if e is None else str(e).lower()] for a, b, c, d, e in rows]


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_a_longer_history_sent_in_parts_leaves_the_table_of_its_source(engine: sa.Engine, seed: str) -> None:
    arguments = ("--rows", "20", "--changes", "120", "--seed", seed)
    lines = generated(*arguments).splitlines()
    with open_harness(engine) as harness:
        for start in range(0, len(lines), 7):
            harness.accept(DebeziumJson(b"\n".join(lines[start : start + 7])))
        assert mirrored(harness.rows("public.orders")) == final_rows(*arguments)


KEY = "mg_0000000000000001_" + "a-secret-only-for-tests-of-the-documents"
NAMES = [
    "send/http.md",
    "send/dry-run.md",
    "reference/arcion.md",
    "reference/arcion-csv.md",
    "reference/replicate.md",
    "reference/replicate-layouts.md",
    "reference/source-order.md",
    "reference/debezium.md",
    "reference/debezium-values.md",
    "reference/rows.md",
    "reference/arrow.md",
    "send/retry-safely.md",
    "operate/keys.md",
    "troubleshoot/rejected.md",
]
TABLES = ("tables", "explanation")
DOCUMENTS = [
    *(REPOSITORY / "docs" / name for name in NAMES),
    *(page for name in TABLES for page in sorted((REPOSITORY / "docs" / name).glob("*.md")) if examples(page)),
]
NOT_PRINTED = {"type", "title", "status", "remedy", "request_id"}
"""Members of a rejection that the documents leave out."""

Reader = Callable[[str], list[Answer]]


@pytest.fixture
def reader(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """Run commands in a folder with a gateway, as a reader of the document would; return all answers in order."""
    (tmp_path / ".mirrorgate").mkdir()
    (tmp_path / ".mirrorgate" / "admin.key").write_text(KEY)
    (tmp_path / ".curlrc").write_text('write-out = "\\t%{http_code}\\n"\n')
    page = REPOSITORY / "docs" / "tables" / "define.md"
    (preamble,) = (block for block in blocks(page.read_text(), "sh") if block.startswith("url="))
    settings = Settings(database_url=SecretStr(database_url), admin_key=SecretStr(KEY))
    with served(settings) as address:

        def run(commands: str) -> list[Answer]:
            script = preamble.replace("http://127.0.0.1:8480", address) + commands
            output = run_shell(script, tmp_path, programs=PROGRAMS, CURL_HOME=str(tmp_path))
            return [printed(*line.split("\t")) for line in output.splitlines()]

        yield run


def printed(body: str, status: str) -> Answer:
    """Return an answer as the documents print it."""
    content = json.loads(body)
    is_rejection = int(status) >= 400
    shown = {name: value for name, value in content.items() if not (is_rejection and name in NOT_PRINTED)}
    return Answer(int(status), shown)


def compare(example: Example, answers: list[Answer]) -> None:
    assert [answer.status for answer in answers] == [expected.status for expected in example.answers], answers
    for answer, expected in zip(answers, example.answers, strict=True):
        assert expected.body is None or answer.body == expected.body


@pytest.mark.parametrize("example", [entry for path in DOCUMENTS for entry in examples(path)], ids=str)
def test_an_example_alone_gets_the_answers_printed_beneath_it(example: Example, reader: Reader) -> None:
    compare(example, reader(example.commands))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_document_from_top_to_bottom_gets_the_answers_it_prints(document: Path, reader: Reader) -> None:
    for example in examples(document):
        compare(example, reader(example.commands))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_call_of_a_document_has_its_answer_beneath_it(document: Path) -> None:
    calls = document.read_text(encoding="utf-8").count("curl ")
    assert calls == sum(len(example.answers) for example in examples(document)) > 0
