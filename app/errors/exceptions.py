"""Every error Mirrorgate raises on purpose: a closed tree, grouped by whose fault it is.

`RejectedInput` is the caller's, `Misconfigured` the operator's, `TemporarilyUnavailable` nobody's for
long, `InvariantBroken` ours. Each carries a stable snake_case `code`; the catalogue says what the code means
and what to do next. No message ever holds a row value or a secret.
"""

from dataclasses import dataclass

from app.errors.catalogue import CATALOGUE
from app.errors.codes import Code, Kind


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with one message: where, and what to do; never the value itself."""

    code: Code
    detail: str
    index: int | None = None
    pointer: str | None = None
    column: str | None = None
    table: str | None = None


class MirrorgateError(Exception):
    """Base of all deliberate errors. `detail` is for people, `code` for programs."""

    def __init__(self, code: Code, detail: str, *, remedy: str | None = None) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.remedy = remedy or CATALOGUE[code].remedy

    @property
    def kind(self) -> Kind:
        return CATALOGUE[self.code].kind


class RejectedInput(MirrorgateError):
    """The caller sent something that cannot be accepted; nothing of the request was staged.

    `problems` names each message that is wrong; empty when the request as a whole is. `withheld` is the folded name of
    a table that the caller may not touch, whether it exists or not: for the audit, never for the answer.
    """

    def __init__(
        self,
        code: Code,
        detail: str,
        *,
        problems: tuple[Problem, ...] = (),
        remedy: str | None = None,
        withheld: str | None = None,
    ) -> None:
        super().__init__(code, detail, remedy=remedy)
        self.problems = problems
        self.withheld = withheld

    @classmethod
    def of(
        cls, problems: tuple[Problem, ...], *, remedy: str | None = None, withheld: str | None = None
    ) -> "RejectedInput":
        """The rejection of a request whose messages have these problems; the first one leads, with its column."""
        first = problems[0]
        is_named = first.column is None or first.column in first.detail.replace(":", " ").split()
        detail = first.detail if is_named else f"{first.detail}, column {first.column}"
        return cls(first.code, detail, problems=problems, remedy=remedy, withheld=withheld)


class TemporarilyUnavailable(MirrorgateError):
    """The same request can succeed later; `retry_after` says when, in seconds."""

    def __init__(self, code: Code, detail: str, *, retry_after: int = 1, remedy: str | None = None) -> None:
        super().__init__(code, detail, remedy=remedy)
        self.retry_after = retry_after


class Misconfigured(MirrorgateError):
    """The operator has to change a setting, an installation or the machine."""


class InvariantBroken(MirrorgateError):
    """Something that must never happen did; the table concerned stops, the gateway goes on."""
