"""Every call printed in the documents returns the answer printed below it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from app.settings import Settings
from tests.support.documents import PROGRAMS, Answer, Example, blocks, examples, run_shell
from tests.support.http.server import served
from tests.support.processes import REPOSITORY

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
