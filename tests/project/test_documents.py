"""What the documents list is what the code has. `make docs` writes the tables of settings and errors."""

import re
from pathlib import Path

import pytest

from app.errors import Code
from app.settings import PREFIX, Settings
from tests.project.facts import REPOSITORY, direct_requirements
from tools.reference import DOCS, errors_table, render_documents

DECISIONS = sorted((DOCS / "decisions").glob("[0-9]*.md"))


@pytest.mark.parametrize("name", ["settings.md", "errors.md"])
def test_a_generated_table_is_the_one_of_the_code(name: str) -> None:
    document = DOCS / name
    assert document.read_text(encoding="utf-8") == render_documents()[document], "run `make docs`, commit the result"


def test_the_tables_have_every_setting_and_every_error_code() -> None:
    settings = (DOCS / "settings.md").read_text(encoding="utf-8")
    assert all(f"| `{PREFIX}{name.upper()}` |" in settings for name in Settings.model_fields)
    assert all(f"| `{code}` |" in errors_table() for code in Code)
    assert all(line.count("|") == 5 for line in errors_table().splitlines())


def test_every_direct_dependency_has_its_reason() -> None:
    reasons: dict[str, list[str]] = {}
    section = ""
    for line in (DOCS / "dependencies.md").read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"## (?:Always|`(\w+)`)", line):
            section = heading[1] or ""
        elif entry := re.fullmatch(r"\| `([\w.-]+)` \| \S.*\. \|", line):
            reasons.setdefault(section, []).append(entry[1])
    assert reasons == {extra: [r.name for r in needed] for extra, needed in direct_requirements().items()}


def test_every_decision_is_listed_under_its_title() -> None:
    listed = re.findall(
        r"^\| \[(\d{4})\]\((\S+)\) \| (.+) \|$", (DOCS / "decisions/README.md").read_text(), re.MULTILINE
    )
    titles = [(path.name[:4], path.name, path.read_text().splitlines()[0].removeprefix("# ")) for path in DECISIONS]
    assert [(number, name, f"{number}: {title}") for number, name, title in listed] == titles


@pytest.mark.parametrize("record", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_record_is_short_and_has_its_three_parts(record: Path) -> None:
    text = record.read_text()
    assert len(text.splitlines()) <= 25
    assert re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE) == ["Context", "Decision", "Consequence"]


@pytest.mark.parametrize("document", sorted(REPOSITORY.glob("*.md")) + sorted(DOCS.rglob("*.md")), ids=lambda p: p.name)
def test_every_link_into_the_repository_leads_somewhere(document: Path) -> None:
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        assert "://" in target or (document.parent / target).exists(), target
