"""docs/clients.md from start to end: clients are generated, and the programs print what the page shows."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from app.api import application
from app.settings import Settings
from tests.api.calls import ADMIN_KEY, Gateway
from tests.sdk.toolchains import NPM_FILES, node_modules, python_programs, run
from tests.support.documents import blocks
from tests.support.http.server import served
from tests.support.processes import REPOSITORY

DOCUMENT = (REPOSITORY / "docs" / "clients.md").read_text(encoding="utf-8")


@pytest.fixture
def address(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(application, "configure_logging", lambda _: None)
    with served(Settings(database_url=SecretStr(database_url), admin_key=SecretStr(ADMIN_KEY))) as address:
        yield address


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the working folder of a reader of the document; it holds the contract."""
    (tmp_path / "openapi").symlink_to(REPOSITORY / "openapi")
    return tmp_path


def program(language: str) -> str:
    """Return the one program of the document in a language."""
    (found,) = blocks(DOCUMENT, language)
    return found


def commands(first: str) -> str:
    """Return the commands of the document that begin with this program."""
    (found,) = [block for block in blocks(DOCUMENT, "sh") if block.startswith(first)]
    return found


def check(written: str, address: str, orders: str, jobs: str, clicks: str) -> None:
    """Check that a program prints what the document shows, and that what it posted twice is staged once."""
    shown = program("text").replace("shop.orders", orders).replace("HR.JOBS", jobs).replace("shop.clicks", clicks)
    assert written.endswith(shown)
    with Gateway.at(address, ADMIN_KEY) as client:
        assert client.status(orders)["accepted"] == {"batches": 1, "changes": 2, "rows": 2}
        assert client.status(jobs)["accepted"] == {"batches": 1, "changes": 1, "rows": 1}
        assert client.status(clicks)["accepted"] == {"batches": 2, "changes": 3, "rows": 3}


def test_the_page_can_be_followed_from_top_to_bottom_on_one_gateway() -> None:
    """Two serializers of one JSON are two requests, so no idempotency key and no table may be in both programs."""
    quoted = [
        set(re.findall(r'"([\w-]+-\d+|\w+\.(?:orders|clicks)|\w+/clicks|7b1c|8c2d)"', program(name)))
        for name in ("python", "typescript")
    ]
    assert all(len(found) >= 4 for found in quoted)
    assert not quoted[0] & quoted[1]


def test_one_variable_has_the_key_in_every_document_and_in_the_program() -> None:
    for document in sorted((REPOSITORY / "docs").glob("*.md")):
        assert not re.search(r"MIRRORGATE_KEY\b", document.read_text(encoding="utf-8")), document.name


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_python_program_of_the_document_works_with_a_generated_client(address: str, folder: Path) -> None:
    programs = python_programs()
    (folder / "orders.py").write_text(program("python"), encoding="utf-8")
    written = run(
        commands("openapi-python-client "), folder, programs, MIRRORGATE_URL=address, MIRRORGATE_API_KEY=ADMIN_KEY
    )
    check(written, address, "shop.orders", "HR.JOBS", "shop.clicks")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_typescript_program_of_the_document_works_with_a_generated_client(address: str, folder: Path) -> None:
    modules = node_modules()
    (folder / "node_modules").symlink_to(modules)
    (folder / "orders.mts").write_text(program("typescript"), encoding="utf-8")
    written = run(commands("npx "), folder, modules / ".bin", MIRRORGATE_URL=address, MIRRORGATE_API_KEY=ADMIN_KEY)
    check(written, address, "web.orders", "WEB.JOBS", "web.clicks")


def test_the_packages_of_the_typescript_client_are_pinned_without_a_place_to_get_them_from() -> None:
    declared, lock = (json.loads(file.read_text()) for file in NPM_FILES)
    wanted = declared["dependencies"] | declared["devDependencies"]
    locked = {name.removeprefix("node_modules/"): facts for name, facts in lock["packages"].items() if name}
    assert wanted == {name: locked[name]["version"] for name in wanted}
    assert not [name for name, facts in locked.items() if "resolved" in facts or "integrity" not in facts]
