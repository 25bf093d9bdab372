"""The documentation's site: `make site` builds it, with every page and every address."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirrorgate.errors.site import SITE
from tools import site
from tools.reference import BEGIN, END
from tools.site import BRANCH, DOCS, MERMAID, address_of, configured, sections, with_addresses, with_lists, with_titles


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    site.build(folder)
    return folder


def test_the_site_builds_without_a_warning_and_has_the_markdown_of_each_page(built: Path) -> None:
    pages = {path.parent for path in built.rglob("index.html")}
    assert {path.parent for path in built.rglob("index.md")} == pages
    assert len(pages) > 60
    listed = re.findall(r"\((\S+)index\.md\)", (built / "llms.txt").read_text())
    assert listed == [address_of(name) for _, pages in sections(configured()["nav"]) for _, name in pages]
    assert all((built / address.removeprefix(configured()["site_url"]) / "index.md").exists() for address in listed)


def test_a_link_to_an_anchor_that_is_not_there_fails_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare = site.prepare

    def prepare_wrongly(revision: str) -> None:
        prepare(revision)
        with (site.PREPARED / "index.md").open("a") as page:
            page.write("\n[a](index.md#not-there)\n")

    monkeypatch.setattr(site, "prepare", prepare_wrongly)
    with pytest.raises(subprocess.CalledProcessError):
        site.build(tmp_path)
    assert "#not-there" in capsys.readouterr().err


def test_a_page_with_a_diagram_gets_mermaid_from_the_site(built: Path) -> None:
    pages = {path: path.read_text() for path in built.rglob("*.html")}
    drawn = {path for path, text in pages.items() if '<pre class="mermaid">' in text}
    assert len(drawn) >= 5
    for path, text in pages.items():
        scripts = [(path.parent / source).resolve() for source in re.findall(r'<script src="(?!/)([^":]+)"', text)]
        assert all(script.exists() for script in scripts), path
        assert (MERMAID in {script.name for script in scripts}) == (path in drawn), path


def test_every_page_is_in_the_navigation_or_in_the_list_of_another_page() -> None:
    named = [name for _, pages in sections(configured()["nav"]) for _, name in pages]
    assert len(set(named)) == len(named)
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    listed = {name for name in there if re.match(r"contribute/(?:decisions/\d|upstream/)", name)}
    assert sorted(there - listed - {*named}) == [], "add these pages to the nav of mkdocs.yml"


def test_a_link_out_of_the_pages_leads_into_the_repository_at_the_branch_or_the_tag_of_a_release() -> None:
    page = DOCS / "index.md"
    source = f"{site.SOURCE}/blob/{BRANCH}"
    assert with_addresses("[a](../README.md#x) [b](index.md)", page) == f"[a]({source}/README.md#x) [b](index.md)"
    assert with_addresses("[a](../deploy/)", page, "v1.2.3") == f"[a]({site.SOURCE}/tree/v1.2.3/deploy)"
    code = "```\n[a](../README.md)\n```\n"
    assert with_addresses(code, page) == code


def test_a_bare_address_of_the_site_becomes_a_link_with_the_title_of_its_page() -> None:
    reload = f"{SITE}tables/reload/#load"
    assert with_titles(f"Load it ({reload}).") == f"Load it ([Reload]({reload}))."
    assert with_titles(f"{SITE}errors/bad_value/") == f"<{SITE}errors/bad_value/>"
    assert with_titles(f"[a]({reload}) `{reload}`") == f"[a]({reload}) `{reload}`"


def test_a_list_gets_the_blank_line_and_the_indents_of_python_markdown() -> None:
    assert with_lists("Text:\n- one\n  more\n\n  ```\n  - code\n  ```\n- two\n\nEnd.\n") == (
        "Text:\n\n- one\n    more\n\n    ```\n    - code\n    ```\n- two\n\nEnd.\n"
    )


MAX_PAGE_WORDS = 1_200
MAX_WORDS = 35_000
"""Limit of all written pages together. To add text, shorten a page, or link to a page instead of repeating it."""


MEASURED = r"<!-- Written by `python -m benchmarks\S+`\. -->.*?<!-- End of what `python -m benchmarks\S+` wrote\. -->"
"""What the committed benchmark results become on the page about sizing."""


def written_pages() -> Iterator[tuple[str, int]]:
    """Yield each page for users with its words, code included, without what `make docs` and the benchmarks wrote."""
    for path in DOCS.rglob("*.md"):
        name = path.relative_to(DOCS).as_posix()
        if not name.startswith("contribute/"):
            text = path.read_text(encoding="utf-8")
            generated = f"{re.escape(BEGIN)}.*?{re.escape(END)}"
            yield name, len(re.sub(f"{generated}|{MEASURED}", "", text, flags=re.DOTALL).split())


def test_a_written_page_is_short_and_all_of_them_are_bounded() -> None:
    words = dict(written_pages())
    assert {name: count for name, count in words.items() if count > MAX_PAGE_WORDS} == {}
    assert sum(words.values()) <= MAX_WORDS
