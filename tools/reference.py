"""Writes the tables of docs/settings.md, docs/errors.md and docs/formats.md from the code: `make docs`."""

from pathlib import Path
from typing import Final

from app.api.server.problem_responses import STATUS
from app.errors import Kind
from app.errors.catalogue import CATALOGUE
from app.settings.model import settings_table
from tools.change_codes import change_codes_table

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
BEGIN: Final = "<!-- Written by `make docs`. -->\n"
END: Final = "<!-- End of what `make docs` wrote. -->\n"

_NOT_ANSWERED: Final = frozenset({Kind.MISCONFIGURED})
"""These end a command or keep it from starting; a request does not meet them."""


def errors_table() -> str:
    """The Markdown table of docs/errors.md, rendered from the catalogue."""
    lines = ["| code | HTTP status | meaning | what to do |", "|---|---|---|---|"]
    for code, facts in CATALOGUE.items():
        status = "" if facts.kind in _NOT_ANSWERED else int(STATUS[facts.kind])
        lines.append(f"| `{code}` | {status} | {facts.meaning} | {facts.remedy} |")
    return "\n".join(lines) + "\n"


def with_table(text: str, table: str) -> str:
    """The document with the table in its place; what stands around it is written by hand."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def render_documents() -> dict[Path, str]:
    """Every document that holds a table from the code, as it should be."""
    tables = {
        DOCS / "settings.md": settings_table(),
        DOCS / "errors.md": errors_table(),
        DOCS / "formats.md": change_codes_table(),
    }
    return {path: with_table(path.read_text(encoding="utf-8"), table) for path, table in tables.items()}


if __name__ == "__main__":
    for path, text in render_documents().items():
        path.write_text(text, encoding="utf-8")
