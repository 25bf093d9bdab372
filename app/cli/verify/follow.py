"""`mirrorgate verify --follow`: check a zone again and again, and print what is new."""

import json
import signal
import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

import typer

from app.cli.console import ERRORS, say
from app.cli.verify.progress import progress_bar
from app.cli.verify.report import print_finding, summary
from app.errors import MirrorgateError
from app.landing.open_zone import ZoneAddress
from app.verify.codes import Severity
from app.verify.finding import Finding
from app.verify.zone_verification import Progress, ZoneVerification

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
    """What was found in the last round, and what of it was shown."""

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
        """Make another round. A store that is away is reported once, until it is back."""
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
                typer.echo(json.dumps(finding.to_json()))
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
