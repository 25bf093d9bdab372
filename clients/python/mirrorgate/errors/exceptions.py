"""Every error that Mirrorgate raises on purpose: one closed tree, grouped by who has to act.

    MirrorgateError
    ├── RejectedInput            the caller corrects the request
    ├── TemporarilyUnavailable   the caller sends the same request again
    ├── Misconfigured            the operator changes a setting, the installation or the machine
    └── InvariantBroken          the drain stops the table; an operator decides

Each error has a stable `code`, which says what it means and what to do. Invariant: no message contains a row
value or a secret.
"""

from dataclasses import dataclass
from typing import Any, Final

from mirrorgate.errors.codes import Code, Kind


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of one message, and its location: its index, JSON pointer, table and column, never the value."""

    code: Code
    detail: str
    index: int | None = None
    pointer: str | None = None
    column: str | None = None
    table: str | None = None


class MirrorgateError(Exception):
    """Base of all deliberate errors: `code` is for programs, `detail` and `remedy` are for people."""

    def __init__(self, code: Code, detail: str, *, remedy: str | None = None) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.remedy = remedy or code.remedy

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without `__init__`, whose arguments differ: a pool of processes hangs on an error that does not."""
        return Exception.__new__, (type(self), *self.args), self.__dict__

    @property
    def kind(self) -> Kind:
        """Return the kind of the code, which decides the HTTP status."""
        return self.code.kind


class RejectedInput(MirrorgateError):
    """A request that the caller has to correct. Nothing of it was staged.

    `problems` names each message at fault; it is empty if the request as a whole is at fault. `withheld` is the folded
    name of a table that the caller has no right to, whether it exists or not. It is for the audit, never for the
    answer.
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
        """Return the rejection of messages with these problems. The first one gives the code and the detail."""
        first = problems[0]
        is_named = first.column is None or first.column in first.detail.replace(":", " ").split()
        detail = first.detail if is_named else f"{first.detail}, column {first.column}"
        return cls(first.code, detail, problems=problems, remedy=remedy, withheld=withheld)

    @classmethod
    def at(
        cls,
        code: Code,
        detail: str,
        index: int | None = None,
        pointer: str | None = None,
        column: str | None = None,
        *,
        remedy: str | None = None,
        withheld: str | None = None,
    ) -> "RejectedInput":
        """Return the rejection of one message, for a problem at this pointer or in this column."""
        return cls.of((Problem(code, detail, index, pointer, column),), remedy=remedy, withheld=withheld)


class TemporarilyUnavailable(MirrorgateError):
    """A request that can succeed unchanged after `retry_after` seconds."""

    def __init__(self, code: Code, detail: str, *, retry_after: int = 1, remedy: str | None = None) -> None:
        super().__init__(code, detail, remedy=remedy)
        self.retry_after = retry_after


class Misconfigured(MirrorgateError):
    """A setting, an installation or a machine that the operator has to change."""

    exit_status: int = 1
    """Exit status of a command that this ends."""


class StorageError(OSError):
    """A request that a storage service did not carry out; the text has the request and the answer, and no row value.

    It is an OSError, because callers treat it like a failure of a local disk. `meaning` is the code that says what an
    operator has to do.
    """

    meaning: Code = Code.STORAGE_FAILED


class InvariantBroken(MirrorgateError):
    """A state that must not occur. The table concerned stops; the other tables continue."""


_NO_DATABASE: Final = "Check that Postgres runs and that MIRRORGATE_DATABASE_URL is its address."


def command_remedy(error: MirrorgateError) -> str:
    """Return what the person who started a program can do; the remedies of codes are about requests.

    For a lost database it has the driver's reason.
    """
    if error.code is not Code.DATABASE_UNAVAILABLE:
        return error.remedy
    reason = str(error.__cause__ or "").strip().splitlines()[:1]
    return " ".join([_NO_DATABASE, *reason])


def pointer_to(pointer: str, member: str) -> str:
    """Return the pointer to the key `member` of the object at `pointer`.

    A `pointer` that ends in `*` is that of keys with a prefix, see `app.formats.replicate.layouts`.
    """
    name = member.replace("~", "~0").replace("/", "~1")
    return f"{pointer[:-1]}{name}" if pointer.endswith("*") else f"{pointer}/{name}"
