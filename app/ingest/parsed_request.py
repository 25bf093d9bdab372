"""The content of a body: changes by source, and the messages that are set aside."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TypeAlias

from app.domain.model.change import Change
from app.domain.model.dead_letter import MAX_WAITING_LETTERS, RejectedMessage, WrittenMessage, to_set_aside
from app.domain.model.names import SourceName
from app.domain.model.table import Generation
from mirrorgate.errors import Code, Problem, RejectedInput

Written: TypeAlias = Callable[[Collection[int]], Mapping[int, WrittenMessage]]
"""Returns the messages with these indexes as the body has them. The body is cut only when this is called."""


@dataclass(slots=True)
class SourceChanges:
    """The changes of one source table, in order. Their source positions are kept under `task`, see `order_key`."""

    source: SourceName
    changes: list[Change] = field(default_factory=list)
    task: str = ""
    rejected: list[RejectedMessage] = field(default_factory=list)
    """Messages that are set aside."""
    read_under: tuple[Generation, int] | None = None
    """The generation and revision of the table under which the values were read, if they depend on its options."""

    @property
    def indexes(self) -> list[int]:
        """The indexes of all its messages."""
        return [change.index for change in self.changes] + [entry.index for entry in self.rejected]

    def without(self, rejected: Mapping[int, RejectedMessage]) -> "SourceChanges":
        """Return the same with these messages set aside."""
        out = [rejected[change.index] for change in self.changes if change.index in rejected]
        kept = [change for change in self.changes if change.index not in rejected]
        return replace(self, changes=kept, rejected=self.rejected + out)


@dataclass(frozen=True, slots=True)
class Registered:
    """A table that a request registered before its changes were read."""

    table: str
    outcome: str
    """`created`, or `evolved` if the table got columns."""


def registered_answer(registered: Registered | None) -> Sequence[Mapping[str, str]]:
    """Return what was registered as an answer has it."""
    return [] if registered is None else [asdict(registered)]


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """A request's changes by source, in order of first appearance, and how many messages were ignored."""

    sources: Sequence[SourceChanges]
    ignored: int = 0
    lines: Sequence[int] = ()
    """The line on which each message begins, by its index; empty where the format has no lines."""
    requested: SourceName | None = None
    """The name in `?table=`, whose table every source must feed."""
    written: Written | None = None
    """Set if rejected messages can become dead letters; without it they reject the request."""
    max_value_bytes: int | None = None
    """The limit of a value in bytes; None if the body is shorter than the limit."""
    registered: Registered | None = None

    def rejection(
        self, problems: Sequence[Problem], rejected: Sequence[RejectedMessage] = (), *, withheld: str | None = None
    ) -> RejectedInput:
        """Return the rejection for problems found after decoding, and for those of messages that were set aside.

        Each problem names its table, and its line where the format has lines.
        """
        known = [problem for entry in rejected for problem in entry.problems]
        table_of = {index: str(entry.source.without_catalog) for entry in self.sources for index in entry.indexes}
        named = [
            problem if problem.table or problem.index is None else replace(problem, table=table_of.get(problem.index))
            for problem in (*map(self._with_line, problems), *known)
        ]
        ordered = sorted(named, key=lambda problem: problem.index or 0)
        return RejectedInput.of(tuple(ordered), withheld=withheld)

    def without_rejected(self, rejection: RejectedInput) -> "ParsedRequest":
        """Return the request without the messages that were rejected, to be tried next.

        Raises the rejection if it concerns the whole request, or if its messages cannot become dead letters.
        """
        if self.written is None:
            raise rejection
        present = {change.index for entry in self.sources for change in entry.changes}
        rejected = {one.index: one for one in to_set_aside(rejection.problems) if one.index in present}
        if not rejected:
            raise rejection
        if any(len(entry.rejected) + len(rejected) > 2 * MAX_WAITING_LETTERS for entry in self.sources):
            detail = f"far more messages are rejected than a table can keep, which is {MAX_WAITING_LETTERS}"
            raise RejectedInput(Code.DEAD_LETTERS_FULL, detail)
        return replace(self, sources=[entry.without(rejected) for entry in self.sources])

    def _with_line(self, problem: Problem) -> Problem:
        if not self.lines or problem.index is None:
            return problem
        return replace(problem, detail=f"line {self.lines[problem.index]}: {problem.detail}")
