"""The output of `mirrorgate verify`: its progress, its findings by table and code, and with `--follow` what is new."""

import signal
import textwrap
import threading
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as ProgressBar
from rich.text import Text

from app.landing.open_zone import ZoneAddress
from mirrorgate.cli.console import ERRORS, OUTPUT, print_json, say
from mirrorgate.errors import MirrorgateError
from mirrorgate.text import amount
from mirrorgate_zone.verify.codes import Finding, Severity
from mirrorgate_zone.verify.table_verification import Progress, ZoneVerification


@contextmanager
def progress_bar(console: Console, *, hidden: bool) -> Iterator[Progress]:
    """Yield what shows the progress on a terminal during the block; nothing elsewhere."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[tables]} tables"),
        TimeElapsedColumn(),
    )
    with ProgressBar(*columns, console=console, transient=True, disable=hidden or not console.is_terminal) as bar:
        task = bar.add_task("listing", total=None, tables="0")

        def show(table: str, done: float, total: int) -> None:
            bar.update(task, description=table, completed=done, total=total or None, tables=f"{int(done):,}/{total:,}")

        yield show


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
        amount(found[Severity.ERROR], "error"),
        amount(found[Severity.WARNING], "warning"),
        f"{found[Severity.ADVICE]:,} advice",
    ]
    checked = f"{amount(tables, 'table')}, {amount(files, 'file')}"
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
    """Print a string below its title."""
    width = max(_MIN_WIDTH, console.width - len(_INDENT))
    for line in textwrap.wrap(printable(text), width, break_long_words=False, break_on_hyphens=False) or [""]:
        _line(console, Text(_INDENT + line))


def _line(console: Console, text: Text) -> None:
    console.print(text, highlight=False, soft_wrap=True)


LOCAL_SECONDS: Final = 1.0
REMOTE_SECONDS: Final = 15.0
"""Pause between two rounds: each lists every table, and requests to a store cost capacity."""


def follow_zone(verification: ZoneVerification, address: ZoneAddress, *, as_json: bool) -> bool:
    """Print new findings until Ctrl-C or SIGTERM; return whether the zone has an error then.

    Raise MirrorgateError and OSError in the first round only: later the store may be away for a while.
    """
    follower = _Follower(verification, as_json=as_json)
    pause = threading.Event()
    try:
        with _ended_by_signals():
            with progress_bar(ERRORS, hidden=as_json) as progress:
                new = list(follower.new_findings(progress))
            follower.show(new)
            if not as_json:
                say(f"{follower.summary()}; watching {address.location}, Ctrl-C ends it", to=ERRORS)
            while True:
                pause.wait(REMOTE_SECONDS if address.is_remote else LOCAL_SECONDS)
                follower.again()
    except KeyboardInterrupt:
        if not as_json:
            say(follower.summary())
    finally:
        verification.close()
    return follower.has_errors


class _Follower:
    """The findings of the last round, and those that were shown."""

    def __init__(self, verification: ZoneVerification, *, as_json: bool) -> None:
        self._verification = verification
        self._as_json = as_json
        self._found: list[Finding] = []
        self._counts = (0, 0)
        self._problem = ""

    @property
    def has_errors(self) -> bool:
        return any(finding.severity is Severity.ERROR for finding in self._found)

    def summary(self) -> str:
        """Return the numbers of the last complete round."""
        return summary(self._found, *self._counts)

    def again(self) -> None:
        """Make another round. A store that is unreachable is reported once, until it is back."""
        try:
            for finding in self.new_findings(lambda *_: None):
                self.show([finding])
        except (MirrorgateError, OSError) as error:
            problem = f"not checked: {getattr(error, 'detail', None) or error}"
            if problem != self._problem:
                say(problem, to=ERRORS)
            self._problem = problem
        else:
            self._problem = ""

    def new_findings(self, progress: Progress) -> Iterator[Finding]:
        """Check the zone and yield what the last round did not find."""
        known = {_place(finding) for finding in self._found}
        found = []
        for finding in self._verification.run(datetime.now(UTC), progress):
            found.append(finding)
            if _place(finding) not in known:
                yield finding
        self._found, self._counts = found, (self._verification.tables, self._verification.files)

    def show(self, findings: list[Finding]) -> None:
        for finding in findings:
            if self._as_json:
                print_json(finding.to_json())
            else:
                print_finding(finding)


def _place(finding: Finding) -> Hashable:
    """Return what makes a finding another one: about a table as a whole, the detail has numbers that grow."""
    return (finding.code, finding.table) if finding.file is None else finding


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does."""

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
