"""The reader of a body, and what the readers of several formats need.

With `keep_rejected`, rejected messages are set aside; they become dead letters if their table accepts them.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeAlias

from app.domain.access.rights import Principal
from app.domain.model.dead_letter import LetterFormat, WrittenMessage
from app.domain.model.input_limits import UNLIMITED, InputLimits
from app.domain.model.names import TableName, unknown_table
from app.domain.model.source_name import SourceName
from app.domain.model.table import Table
from app.errors import RejectedInput
from app.formats.foreign_forms import Form, explained
from app.formats.json.decoder import raw_messages
from app.ingest.columnar.reading import ColumnarRequest
from app.ingest.parsed_request import ParsedRequest
from app.ingest.table_cache import TableCache

Columnar: TypeAlias = Callable[[Principal], ColumnarRequest]
"""Makes the request for the reader thread."""


@dataclass(frozen=True, slots=True)
class BodyReader:
    """Reads one body into a ParsedRequest.

    CSV needs the columns of its table; metadata messages of Replicate register and change tables.
    """

    read: Callable[[TableCache, Principal, bool], ParsedRequest]
    source_format: str
    """The format's name in metrics: one of LetterFormat."""
    columnar: Columnar | None = None
    """Returns the request for the reader thread, if the format has a columnar decoder."""
    limits: InputLimits = UNLIMITED
    """The limits of the request."""
    has_layout: bool = False
    """True if messages have a custom form, which may look like another format's."""

    def explained(self, error: RejectedInput, body: bytes) -> RejectedInput:
        """Return the rejection of a body, which names the right endpoint if the body is of another form."""
        if self.has_layout:
            return error
        own, _, csv = self.source_format.partition("_")
        return explained(error, body, Form(own), is_csv=bool(csv))


def present_table(table: TableName, table_cache: TableCache, principal: Principal) -> Table:
    """Return the table of a request. Raises RejectedInput `unknown_table`."""
    source = SourceName.address(table)
    found = table_cache.refresh(source)
    if found is None or not principal.may_touch(found.name):
        withheld = table_cache.withheld(source, principal)
        raise unknown_table(table, withheld=withheld)
    return found


def written_json(
    body: bytes, letter_format: LetterFormat, reading: dict[str, Any], indexes: Collection[int]
) -> dict[int, WrittenMessage]:
    """Return the messages at the indexes as they are written in a JSON body."""
    messages = raw_messages(body)
    return {index: WrittenMessage(letter_format, messages[index], reading) for index in indexes}


def max_value_bytes(body: bytes, limits: InputLimits) -> int | None:
    """Return the limit of one value if the body is large enough to exceed it."""
    return limits.value_bytes if len(body) > limits.value_bytes else None
