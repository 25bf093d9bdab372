"""The reader of a body, which a format extends, and what the readers of several formats need.

A format reads a body in two ways that give the same rows (app/ingest/pipeline.py): `columnar` reads several bodies
together, and declines what is unusual; `exact` reads any body message by message, and tells what is wrong with each.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from app.domain.access.rights import Principal
from app.domain.model.change import UNLIMITED, InputLimits
from app.domain.model.dead_letter import LetterFormat, WrittenMessage
from app.domain.model.names import SourceName, TableName, unknown_table
from app.domain.model.table import Table
from app.formats.foreign_forms import Form, explained
from app.formats.json.decoder import raw_messages
from app.formats.rows.declaration import Declaration
from app.ingest.columnar import Asked, Decline, Declined, Opened, OpenedBody, eligible_table, opened_or_why
from app.ingest.parsed_request import ParsedRequest
from app.ingest.table_cache import TableCache
from mirrorgate.errors import RejectedInput


@dataclass(frozen=True, slots=True)
class BodyReader(ABC):
    """A body with what its request says about it."""

    source_format: ClassVar[LetterFormat]
    """The format's name in metrics."""
    body: bytes
    limits: InputLimits = field(default=UNLIMITED, kw_only=True)
    """The limits of the request."""
    keep_rejected: bool = field(default=False, kw_only=True)
    """Set rejected messages aside; they become dead letters if their table accepts them."""
    partition: str | None = field(default=None, kw_only=True)
    """The partition of the topic that all messages of the body were read from."""

    @property
    def is_columnar(self) -> bool:
        """False if only the exact path can read the body, whatever is in it."""
        return True

    @property
    def has_layout(self) -> bool:
        """True if messages have a custom form, which may look like another format's."""
        return False

    @property
    def reads_rows(self) -> bool:
        """True if an object that is no message of the format is a row of the table that the request names."""
        return False

    @classmethod
    def columnar(cls, asked: Sequence[Asked[Any]], table_cache: TableCache, /) -> list[Opened]:
        """Decode the messages of several bodies of this format, and find their tables."""
        return [opened_or_why(body._opened, principal, table_cache) for body, principal in asked]

    def _opened(self, principal: Principal, table_cache: TableCache) -> OpenedBody:
        """Find the tables of this body, where `columnar` does not treat several at once. Raises Declined."""
        raise Declined(Decline.NO_COLUMNAR_READER)

    @abstractmethod
    def exact(self, table_cache: TableCache, principal: Principal) -> ParsedRequest:
        """Return the changes of the body. Metadata messages of Replicate register and change tables.

        Raises RejectedInput.
        """

    @property
    def max_value_bytes(self) -> int | None:
        """The limit of one value if the body is large enough to exceed it."""
        return self.limits.value_bytes if len(self.body) > self.limits.value_bytes else None

    def explained(self, error: RejectedInput) -> RejectedInput:
        """Return the rejection of the body, which names the right endpoint if the body is of another form."""
        if self.has_layout:
            return error
        own, _, csv = self.source_format.partition("_")
        return explained(error, self.body, Form(own), is_csv=bool(csv), reads_rows=self.reads_rows)

    def written_json(self, reading: Mapping[str, Any], indexes: Collection[int]) -> dict[int, WrittenMessage]:
        """Return the messages at the indexes as they are written in a JSON body; `reading` says how they were read."""
        messages = raw_messages(self.body)
        return {index: WrittenMessage(self.source_format, messages[index], dict(reading)) for index in indexes}

    def table_without_change(
        self, name: TableName, principal: Principal, table_cache: TableCache, declared: Declaration | None = None
    ) -> Table:
        """Return the table of a body of rows for the columnar path.

        Raises Declined if a value can be too long, or if the table must change first, and what `eligible_table` raises.
        """
        if self.max_value_bytes is not None:
            raise Declined(Decline.BODY)
        table = eligible_table(SourceName.address(name), None, table_cache, principal)
        if declared is not None and not declared.is_met_by(table.schema):
            raise Declined(Decline.TABLE)
        return table


def present_table(table: TableName, table_cache: TableCache, principal: Principal) -> Table:
    """Return the table of a request. Raises RejectedInput `unknown_table`."""
    source = SourceName.address(table)
    found = table_cache.refresh(source)
    if found is None or not principal.may_touch(found.name):
        withheld = table_cache.withheld(source, principal)
        raise unknown_table(table, withheld=withheld)
    return found
