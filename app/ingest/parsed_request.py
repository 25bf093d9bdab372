"""What a body holds: changes by source, and the messages that are left out of it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from app.domain.model.change import Change
from app.domain.model.dead_letter import RejectedMessage, WrittenMessage, to_set_aside
from app.domain.model.source_name import SourceName
from app.errors import Problem, RejectedInput

Written: TypeAlias = Callable[[Collection[int]], Mapping[int, WrittenMessage]]
"""Gives the messages with these indexes as they stand in the body; the body is cut up only now."""


@dataclass(slots=True)
class SourceChanges:
    """Changes of one source's table, in order; `task` is what their order is kept under, see `order_key`."""

    source: SourceName
    changes: list[Change] = field(default_factory=list)
    task: str = ""
    rejected: list[RejectedMessage] = field(default_factory=list)
    """Messages that are left out."""

    @property
    def indexes(self) -> list[int]:
        """Of all its messages."""
        return [change.index for change in self.changes] + [entry.index for entry in self.rejected]

    def without(self, rejected: Mapping[int, RejectedMessage]) -> "SourceChanges":
        """The same, these messages left out."""
        out = [rejected[change.index] for change in self.changes if change.index in rejected]
        kept = [change for change in self.changes if change.index not in rejected]
        return replace(self, changes=kept, rejected=self.rejected + out)


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """A request's changes by source, in order of first appearance, and the messages that were ignored."""

    sources: Sequence[SourceChanges]
    ignored: int = 0
    lines: Sequence[int] = ()
    """Where the messages begin in a body of lines, by their index."""
    requested: SourceName | None = None
    """A name of the table that every source must feed."""
    written: Written | None = None
    """Where rejected messages become dead letters; without, they reject the request."""
    max_value_bytes: int | None = None
    """What no value may be longer than; None where the body is not."""

    def rejection(
        self, problems: Sequence[Problem], rejected: Sequence[RejectedMessage] = (), *, withheld: str | None = None
    ) -> RejectedInput:
        """Problems found later than decoding, each with its line where there are lines, and those of messages that
        were left out before."""
        known = [problem for entry in rejected for problem in entry.problems]
        table_of = {index: str(entry.source.without_catalog) for entry in self.sources for index in entry.indexes}
        named = [
            problem if problem.table or problem.index is None else replace(problem, table=table_of.get(problem.index))
            for problem in (*map(self._with_line, problems), *known)
        ]
        ordered = sorted(named, key=lambda problem: problem.index or 0)
        return RejectedInput.of(tuple(ordered), withheld=withheld)

    def setting_aside(self, rejection: RejectedInput) -> "ParsedRequest":
        """The request without the messages that were rejected, to be tried next. Raises the rejection where it is
        of the whole request, or its messages are no dead letters."""
        if self.written is None:
            raise rejection
        present = {change.index for entry in self.sources for change in entry.changes}
        rejected = {one.index: one for one in to_set_aside(rejection.problems) if one.index in present}
        if not rejected:
            raise rejection
        return replace(self, sources=[entry.without(rejected) for entry in self.sources])

    def _with_line(self, problem: Problem) -> Problem:
        if not self.lines or problem.index is None:
            return problem
        return replace(problem, detail=f"line {self.lines[problem.index]}: {problem.detail}")
