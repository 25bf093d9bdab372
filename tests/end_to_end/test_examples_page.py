"""The examples of rows, of a reload and of curl, against a real gateway."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.calls import ADMIN_KEY, Gateway, own_gateway
from tests.sdk.toolchains import NPM_FILES
from tests.support.documents import run_shell
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
