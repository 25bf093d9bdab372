"""README, examples, tutorials, generated clients and client library, on real gateways as a reader follows them.

The pages of the long test have separate tables, producers and idempotency keys, so no page changes what a later one
finds.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.api.calls import ADMIN_KEY, own_gateway
from tests.api.commands import staged
from tests.end_to_end.reader import Reader, follow_the_readme, reading
from tests.end_to_end.test_examples_page import receipts
from tests.sdk.toolchains import NPM_FILES, node_modules, python_programs
from tests.support.documents import blocks, follow_page
from tests.support.processes import REPOSITORY

NPM_INSTALL = "npm ci --no-audit --no-fund && "
PROGRAMS = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LIBRARY = (REPOSITORY / "docs/send/python.md").read_text(encoding="utf-8")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_pages_can_be_followed_one_after_the_other_on_one_gateway(tmp_path: Path) -> None:
    with reading(tmp_path) as reader:
        follow_the_pages(reader)


def follow_the_pages(reader: Reader) -> None:
    before = {path.name for path in reader.checkout.iterdir()}
    follow_the_readme(reader)
    compiler, without_node = node_or_why()
    follow_the_examples(reader, compiler)
    follow_the_generated_clients(reader, compiler)
    follow_the_client_library(reader)
    assert {path.name for path in reader.checkout.iterdir()} - before <= {"build"}, "git would show other files"
    if without_node:
        pytest.skip(without_node)


def node_or_why() -> tuple[Path | None, str]:
    """Return the folder of packages for TypeScript, or None and why there is none."""
    try:
        return node_modules(), ""
    except pytest.skip.Exception as skipped:
        return None, f"{skipped}; the pages were followed without TypeScript"


def follow_the_examples(reader: Reader, compiler: Path | None) -> None:
    page = reader.page("examples/README.md")
    set_up, rows, python, compiling, typescript, curl = blocks(page, "sh")
    printed = blocks(page, "text")
    assert reader.run(set_up, rows).endswith(receipts(1, 2, 3))
    assert reader.run(set_up, python).count(printed[0]) == 1
    changes = 5
    if compiler is not None:
        (reader.checkout / "examples" / "typescript" / "node_modules").symlink_to(compiler)
        assert NPM_INSTALL in compiling
        posted = reader.run(set_up, compiling.replace(NPM_INSTALL, ""))
        assert [f"sequence: {number}" in posted for number in (4, 5, 6)] == [True] * 3
        assert reader.run(set_up, typescript).endswith(printed[1])
        changes = 6
    sent_again = reader.run(set_up.rpartition("\n.venv")[0], python.splitlines()[1])
    assert sent_again == "", "nothing, because every line is durable"
    assert reader.run(set_up, curl).count('"receipts"') == 5
    assert reader.accepted("examples.orders") == {"batches": changes - 1, "changes": changes, "rows": changes}


def follow_the_generated_clients(reader: Reader, compiler: Path | None) -> None:
    page = reader.page("examples/generated-clients/README.md")
    (shown,) = blocks(page, "text")
    set_up = commands(page, "export ")
    folder = reader.checkout / "build" / "clients"
    assert reader.run(set_up, commands(page, "openapi-"), programs=python_programs()).endswith(shown)
    schemas = ["python"]
    if compiler is not None:
        (folder / "node_modules").symlink_to(compiler)
        written = reader.run(set_up, commands(page, "npx "), programs=compiler / ".bin")
        assert written.endswith(shown.replace("python.", "typescript."))
        schemas.append("typescript")
    for schema in schemas:  # what a program posts twice is staged once
        assert reader.accepted(f"{schema}.orders") == {"batches": 1, "changes": 2, "rows": 2}
        assert reader.accepted(f"{schema}.JOBS") == {"batches": 1, "changes": 1, "rows": 1}
        assert reader.accepted(f"{schema}.clicks") == {"batches": 2, "changes": 3, "rows": 3}


def commands(page: str, first: str) -> str:
    """Return the commands of a page that begin with this program."""
    return only([block for block in blocks(page, "sh") if block.startswith(first)])


def only(found: list[Any]) -> Any:
    (one,) = found
    return one


def follow_the_client_library(reader: Reader) -> None:
    page = reader.page("docs/send/python.md")
    reader.run(commands(page, "export "), commands(page, "curl"))
    assert run_programs(reader, page) == 3
    assert run_programs(reader, reader.page("docs/send/dataframes.md")) == 1


def run_programs(reader: Reader, page: str) -> int:
    """Run each program of a page, compare what it prints, and return how many there are."""
    programs = PROGRAMS.findall(page)
    assert len(programs) == page.count("```python")
    for program, printed in programs:
        run = f".venv/bin/python -W error - <<'END'\n{program}END"
        assert reader.run(commands(page, "export "), run) == printed
    return len(programs)


def test_the_first_program_of_the_client_library_has_at_most_twenty_lines() -> None:
    program, _ = PROGRAMS.findall(LIBRARY)[0]
    assert len(program.splitlines()) <= 20


def test_one_variable_has_the_key_in_every_document_and_in_the_program() -> None:
    for document in sorted((REPOSITORY / "docs").glob("*.md")):
        assert not re.search(r"MIRRORGATE_KEY\b", document.read_text(encoding="utf-8")), document.name


def test_the_packages_of_the_typescript_client_are_pinned_without_a_place_to_get_them_from() -> None:
    declared, lock = (json.loads(file.read_text()) for file in NPM_FILES)
    wanted = declared["dependencies"] | declared["devDependencies"]
    locked = {name.removeprefix("node_modules/"): facts for name, facts in lock["packages"].items() if name}
    assert wanted == {name: locked[name]["version"] for name in wanted}
    assert not [name for name, facts in locked.items() if "resolved" in facts or "integrity" not in facts]


NIGHTLY = (REPOSITORY / "docs/tutorials/nightly-csv.md").read_text(encoding="utf-8")


def test_each_night_the_table_gets_the_rows_of_the_file(database_url: str, engine: sa.Engine, tmp_path: Path) -> None:
    (tmp_path / ".mirrorgate").mkdir()
    (tmp_path / ".mirrorgate/admin.key").write_text(ADMIN_KEY)
    with own_gateway(database_url) as gateway:
        follow_page(NIGHTLY.replace("http://127.0.0.1:8480", gateway.address), tmp_path)
    assert [row[0] for row in staged(engine, "pricing.articles")] == [1, 2, 3, 1, 3, 4, 2, 1, 3, 4]
