"""The findings of `mirrorgate verify` for people: by table, then by code, each code with its places and its remedy."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console
from rich.text import Text

from app.cli.console import OUTPUT
from app.cli.output import counted
from app.verify.codes import Severity
from app.verify.finding import Finding

MAX_PLACES: Final = 5
"""Places that are shown of each code in each table; `--json` has them all."""

_STYLES: Final = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.ADVICE: "cyan"}
_ORDER: Final = tuple(Severity)
_MIN_WIDTH: Final = 60
_INDENT: Final = " " * 11


def print_report(findings: Sequence[Finding], tables: int, files: int, console: Console = OUTPUT) -> None:
    """Print all findings and their number."""
    by_table: dict[str | None, list[Finding]] = {}
    for finding in findings:
        by_table.setdefault(finding.table, []).append(finding)
    for table, found in by_table.items():
        _line(console, Text(printable(table or "the zone"), "bold"))
        for group in _by_code(found):
            _print_group(group, console)
    _line(console, Text(summary(findings, tables, files)))


def print_finding(finding: Finding, console: Console = OUTPUT) -> None:
    """Print one finding with its remedy, as `--follow` shows it."""
    _line(console, _title(finding, printable(" ".join(filter(None, (finding.table, finding.file))))))
    _wrapped(finding.detail, console)
    _wrapped(f"-> {finding.remedy}", console)


def summary(findings: Iterable[Finding], tables: int, files: int) -> str:
    """Return the numbers of tables, files and findings in one line."""
    found = Counter(finding.severity for finding in findings)
    numbers = [
        counted(found[Severity.ERROR], "error"),
        counted(found[Severity.WARNING], "warning"),
        f"{found[Severity.ADVICE]:,} advice",
    ]
    checked = f"{counted(tables, 'table')}, {counted(files, 'file')}"
    return f"{checked}: {', '.join(numbers)}" if found.total() else f"{checked}: nothing found"


def _by_code(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Group the findings of a table by code, errors first; within a severity in the order of the checks."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.code, []).append(finding)
    return sorted(groups.values(), key=lambda group: _ORDER.index(group[0].severity))


def _print_group(group: Sequence[Finding], console: Console) -> None:
    _line(console, _title(group[0], f"({len(group):,})" if len(group) > 1 else ""))
    for finding in group[:MAX_PLACES]:
        _wrapped(f"{finding.file}: {finding.detail}" if finding.file else finding.detail, console)
    if len(group) > MAX_PLACES:
        _wrapped(f"and {len(group) - MAX_PLACES:,} more, which --json shows", console)
    _wrapped(f"-> {group[0].remedy}", console)


def printable(text: str) -> str:
    """Escape control characters and undecodable bytes, which names in a foreign zone can contain."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def _title(finding: Finding, rest: str) -> Text:
    severity = Text(f"  {finding.severity:<8}", _STYLES[finding.severity])
    return Text(" ").join([severity, Text(f"{finding.code} {rest}".rstrip())])


def _wrapped(text: str, console: Console) -> None:
    """Print a text below its title."""
    width = max(_MIN_WIDTH, console.width - len(_INDENT))
    for line in textwrap.wrap(printable(text), width, break_long_words=False, break_on_hyphens=False) or [""]:
        _line(console, Text(_INDENT + line))


def _line(console: Console, text: Text) -> None:
    console.print(text, highlight=False, soft_wrap=True)
