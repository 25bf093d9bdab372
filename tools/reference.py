"""Writes the generated tables of the pages in docs/: `make docs`.

A page keeps its own text before and after the two comments `BEGIN` and `END`; what is between them is generated. A test
compares the committed pages with the code.
"""

from pathlib import Path
from typing import Final

from app.api.server.problem_responses import STATUS
from app.observability import mirror_metrics
from app.settings import PREFIX
from app.settings.model import SUBJECTS as SETTINGS
from app.verify.codes import SUBJECTS as FINDINGS
from mirrorgate.errors import Kind
from mirrorgate.errors.codes import SUBJECTS as ERRORS
from tools.change_codes import change_codes_table
from tools.seeds import seeds_tables

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
BEGIN: Final = "<!-- Written by `make docs`. -->\n"
END: Final = "<!-- End of what `make docs` wrote. -->\n"

_WITHOUT_STATUS: Final = frozenset({Kind.MISCONFIGURED})
"""Kinds that end a command or keep a process from starting, so that no request gets them."""


def errors_tables() -> str:
    """Return the error codes as Markdown: a heading and a table for each subject."""
    sections = []
    for subject, codes in ERRORS.items():
        lines = [f"## {subject}", "", "| code | HTTP status | meaning | what to do |", "|---|---|---|---|"]
        for code in codes:
            status = "" if code.kind in _WITHOUT_STATUS else int(STATUS[code.kind])
            remedies = [code.remedy, *(f"For {name}: {remedy}" for name, remedy in code.of_format.items())]
            lines.append(f"| `{code}` | {status} | {code.meaning} | {' '.join(remedies)} |")
        sections.append("\n".join(lines))
    return "\n\n".join(sections) + "\n"


def settings_tables() -> str:
    """Return the settings as Markdown: a heading and a table for each subject."""
    sections = []
    for subject, settings in SETTINGS.items():
        lines = [f"## {subject}", "", "| variable | default | meaning |", "|---|---|---|"]
        for name, field in settings.model_fields.items():
            default = "" if field.default is None else f"`{getattr(field.default, 'value', field.default)}`"
            description = " ".join((field.description or "").split())
            lines.append(f"| `{PREFIX}{name.upper()}` | {default} | {description} |")
        sections.append("\n".join(lines))
    return "\n\n".join(sections) + "\n"


def findings_tables() -> str:
    """Return the findings of `verify` as Markdown: a heading and a table for each subject."""
    sections = []
    for subject, codes in FINDINGS.items():
        lines = [f"### {subject}", "", "| code | severity | meaning | what to do |", "|---|---|---|---|"]
        lines += [f"| `{code}` | {code.severity} | {code.meaning} | {code.remedy} |" for code in codes]
        sections.append("\n".join(lines))
    return "\n\n".join(sections) + "\n"


def mirror_metrics_table() -> str:
    """Return the mirror's own metrics as a Markdown table. The facts about its process depend on the system."""
    lines = ["| metric | type | meaning |", "|---|---|---|"]
    for family in mirror_metrics.MIRROR.registry.collect():
        if not family.name.startswith("mirrorgate_mirror_process_"):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            lines.append(f"| `{name}` | {family.type} | {family.documentation} |")
    return "\n".join(lines) + "\n"


def with_generated(text: str, generated: str) -> str:
    """Return the page with its generated part replaced."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{generated}\n{END}{after}"


def render_documents() -> dict[Path, str]:
    """Return the text of each page with a generated part, as the code says that it must be."""
    parts = {
        DOCS / "reference/settings.md": settings_tables(),
        DOCS / "reference/errors.md": errors_tables(),
        DOCS / "formats.md": change_codes_table(),
        DOCS / "operations.md": mirror_metrics_table(),
        DOCS / "verify.md": findings_tables(),
        DOCS / "contribute/seeds.md": seeds_tables(),
    }
    return {path: with_generated(path.read_text(encoding="utf-8"), part) for path, part in parts.items()}


if __name__ == "__main__":
    for path, text in render_documents().items():
        path.write_text(text, encoding="utf-8")
