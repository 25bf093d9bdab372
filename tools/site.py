"""Build the documentation's site from docs/ and mkdocs.yml into build/site: `make site`.

MkDocs reads build/docs: the pages with links out of docs/ turned into addresses of the repository, and the pages that
only the site has, such as one for each error code. Beside each page of the site is its Markdown, and `llms.txt` lists
all of them.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from mirrorgate.errors.site import SITE
from tools.reference import DOCS
from tools.site_reference import generated_pages

REPOSITORY: Final = Path(__file__).resolve().parents[1]
PREPARED: Final = REPOSITORY / "build" / "docs"
BUILT: Final = REPOSITORY / "build" / "site"
SOURCE: Final = "https://github.com/mirrorgate/mirrorgate"
BRANCH: Final = "main"
"""The revision to which links out of docs/ lead; `make release` gives the tag of the version instead."""

ASSETS: Final = REPOSITORY / "tools" / "assets"
MERMAID: Final = "mermaid.tiny.js"

_BUNDLE: Final = re.compile(r'<script src="([./]*assets/)javascripts/bundle')
_DIAGRAM: Final = re.compile(r'<pre class="mermaid">.*?</pre>', re.DOTALL)
_LINK: Final = re.compile(r"(?<=\]\()([^)\s#:]+)((?:#[^)\s]*)?)(?=[)\s])")
_ADDRESS: Final = re.compile(rf"(?<!\]\()(?<![`<\"])({re.escape(SITE)}[\w/-]*)(?:#[\w-]+)?")
_ITEM: Final = re.compile(r"(?:[-*+]|\d+\.) +")
_UNSEARCHED: Final = (
    "contribute/decisions/0",
    "contribute/upstream/",
    "contribute/seeds.md",
    "contribute/performance-notebook.md",
)
"""Beginnings of the pages that the site's search leaves out."""


def build(site: Path = BUILT, revision: str = BRANCH) -> None:
    """Build the site. Raise `CalledProcessError` if MkDocs warns, for example of a link that leads nowhere."""
    prepare(revision)
    # Its output is kept back instead of --quiet, with which --strict counts no warning.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    if built.returncode:
        sys.stderr.write(built.stdout + built.stderr)
    built.check_returncode()
    add_mermaid(site)
    add_markdown(site)


def prepare(revision: str = BRANCH) -> None:
    """Copy the pages and pictures to build/docs, each page as Python-Markdown needs it."""
    shutil.rmtree(PREPARED, ignore_errors=True)
    shutil.copytree(DOCS, PREPARED)
    for name in (MERMAID, "site.css"):
        (PREPARED / "assets").mkdir(exist_ok=True)
        shutil.copyfile(ASSETS / name, PREPARED / "assets" / name)
    for name, text in generated_pages().items():
        (PREPARED / name).parent.mkdir(parents=True, exist_ok=True)
        (PREPARED / name).write_text(text, encoding="utf-8")
    for path in PREPARED.rglob("*.md"):
        name = path.relative_to(PREPARED).as_posix()
        text = with_titles(with_lists(with_addresses(path.read_text(encoding="utf-8"), DOCS / name, revision)))
        head = "---\nsearch:\n  exclude: true\n---\n\n" if name.startswith(_UNSEARCHED) else ""
        path.write_text(head + text, encoding="utf-8")


def with_addresses(text: str, page: Path, revision: str = BRANCH) -> str:
    """Return the page with its links to files outside docs/ as addresses in the repository at this revision."""

    def address(link: re.Match[str]) -> str:
        target = (page.parent / link[1]).resolve()
        if target.is_relative_to(DOCS) or not target.exists():
            return link[0]
        kind = "tree" if target.is_dir() else "blob"
        return f"{SOURCE}/{kind}/{revision}/{target.relative_to(REPOSITORY).as_posix()}{link[2]}"

    return "".join(line if fenced else _LINK.sub(address, line) for line, fenced in lines_of(text))


def with_lists(text: str) -> str:
    """Return the page with the blank lines and indents that Python-Markdown, unlike GitHub, needs around lists."""
    lines: list[str] = []
    width = 0
    for line, fenced in lines_of(text):
        ended = not lines or not lines[-1].strip()
        if not fenced and (item := _ITEM.match(line)):
            lines += [] if ended or width else ["\n"]
            width = item.end()
        elif width and line.strip():
            if line[:width].isspace():
                line = " " * (4 - width) + line
            elif ended:
                width = 0
        lines.append(line)
    return "".join(lines)


def with_titles(text: str) -> str:
    """Return the page with bare addresses of the site, as remedies have them, as links with the pages' titles."""
    titles = {address_of(name): title for _, pages in sections(configured()["nav"]) for title, name in pages}

    def link(address: re.Match[str]) -> str:
        title = titles.get(address[1])
        return f"[{title}]({address[0]})" if title else f"<{address[0]}>"

    return "".join(line if fenced else _ADDRESS.sub(link, line) for line, fenced in lines_of(text))


def lines_of(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each line, and whether it belongs to a fenced block."""
    fence = ""
    for line in text.splitlines(keepends=True):
        mark = line.lstrip()[:3]
        yield line, bool(fence) or mark == "```"
        if mark == "```":
            fence = "" if fence else mark


def add_mermaid(site: Path) -> None:
    """Add Mermaid to pages with a diagram. Otherwise the theme loads it from unpkg.com in the reader's browser.

    Each diagram gets a box of site.css around it, because the theme replaces the diagram's element.
    """
    for path in site.rglob("*.html"):
        text, count = _DIAGRAM.subn(r'<div class="diagram">\g<0></div>', path.read_text(encoding="utf-8"))
        if count:
            own = rf'<script src="\1{MERMAID}"></script>\g<0>'
            path.write_text(_BUNDLE.sub(own, text), encoding="utf-8")


def add_markdown(site: Path) -> None:
    """Write each page's Markdown beside its HTML, as `index.md`, and `llms.txt` with the pages of the navigation."""
    for path in PREPARED.rglob("*.md"):
        name = path.relative_to(PREPARED)
        folder = name.parent if name.stem in ("index", "README") else name.with_suffix("")
        shutil.copyfile(path, site / folder / "index.md")
    configuration = configured()
    lines = [f"# {configuration['site_name']}", "", f"> {configuration['site_description']}", ""]
    for section, pages in sections(configuration["nav"]):
        lines += [f"## {section}", "", *(f"- [{title}]({address_of(name)}index.md)" for title, name in pages), ""]
    (site / "llms.txt").write_text("\n".join(lines), encoding="utf-8")


def address_of(name: str) -> str:
    """Return the site's address of a page that is named by its path in docs/, such as `tables/define.md`."""
    folder = re.sub(r"(?:^|(?<=/))(?:index|README)$", "", name.removesuffix(".md"))
    return f"{configured()['site_url']}{folder}{'/' if folder and not folder.endswith('/') else ''}"


def sections(nav: list[dict[str, Any]]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each part of the navigation with the title and the name of its pages."""
    for entry in nav:
        for title, inside in entry.items():
            pages = [(title, inside)] if isinstance(inside, str) else [page for one in inside for page in one.items()]
            yield title, pages


@cache
def configured() -> dict[str, Any]:
    """Return mkdocs.yml without its Python objects."""
    configuration: dict[str, Any] = yaml.load(
        (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8"), Loader=_PlainLoader
    )
    return configuration


class _PlainLoader(yaml.SafeLoader):
    """YAML loader that reads the tags of MkDocs as None."""


_PlainLoader.add_multi_constructor("!!python/", lambda *_: None)
_PlainLoader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


if __name__ == "__main__":
    build()
    print(f"Built {BUILT.relative_to(REPOSITORY)}: {len(list(BUILT.rglob('index.html')))} pages")
