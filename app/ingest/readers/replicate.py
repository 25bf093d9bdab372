"""The reader of Replicate bodies, and of one kept Replicate message."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from app.domain.access.rights import Principal
from app.domain.model.dead_letter import LetterFormat, WrittenMessage
from app.domain.model.input_limits import UNLIMITED, InputLimits
from app.domain.model.names import TableName
from app.domain.model.source_name import SourceName
from app.domain.rows.source_order import order_key
from app.errors import Code, RejectedInput
from app.formats.json.decoder import raw_messages
from app.formats.replicate.forms.layouts import Layout, read_layout
from app.formats.replicate.forms.message_form import STANDARD, MessageForm
from app.formats.replicate.messages import ReplicateRequest, decode_replicate
from app.ingest.columnar.replicate import ReplicateBody
from app.ingest.parsed_request import ParsedRequest, SourceChanges
from app.ingest.readers.body_reader import BodyReader, max_value_bytes
from app.ingest.replicate.tables import EarlierReading, ReplicateTables
from app.ingest.table_cache import TableCache
from app.staging.connection.database import translated_errors
from app.staging.tables.layouts import find_layout


def replicate_json(
    body: bytes,
    table: TableName | None = None,
    *,
    partition: str | None = None,
    form: MessageForm = STANDARD,
    layout: str | None = None,
    limits: InputLimits = UNLIMITED,
    keep_rejected: bool = False,
) -> BodyReader:
    """Read a Replicate body, and register the tables that its metadata messages declare.

    `partition` names the partition of the task's topic that all messages of the body were read from. `form` says how to
    read messages that differ from Replicate's default format; `layout` is the name of a stored layout for it.
    """

    def decode(table_cache: TableCache, principal: Principal, marker_first: bool) -> ParsedRequest:
        read_as = form if layout is None else replace(form, layout=_stored_layout(layout, table_cache))
        request = decode_replicate(body, limits, read_as, keep_rejected=keep_rejected)
        tables = ReplicateTables(table_cache, principal, marker_first, keep_rejected=keep_rejected)
        written = partial(_written_replicate, body, tables, request, table, read_as) if keep_rejected else None
        limit = max_value_bytes(body, limits)
        sources = _settled(tables, request, table, partition)
        ignored = request.ignored + tables.repeated
        return ParsedRequest(sources, ignored, written=written, max_value_bytes=limit)

    is_columnar = layout is None and form.layout is None and form.table_from is None
    columnar = partial(ReplicateBody, body, table, form.keyed, limits) if is_columnar else None
    return BodyReader(decode, LetterFormat.REPLICATE, columnar, limits, has_layout=layout is not None)


def _stored_layout(name: str, table_cache: TableCache) -> Layout:
    """Return a layout as it is stored now. Raises RejectedInput `unknown_layout`."""
    with translated_errors(), table_cache.begin() as connection:
        stored = find_layout(connection, name)
    if stored is None:
        raise RejectedInput(Code.UNKNOWN_LAYOUT, "no such layout")
    return read_layout(stored.document)


def read_again(
    content: bytes,
    table: TableName,
    reading: Mapping[str, Any],
    table_cache: TableCache,
    principal: Principal,
    marker_first: bool,
) -> ParsedRequest:
    """Read one kept data message under the metadata version that it was read under."""
    request = decode_replicate(content, form=MessageForm.from_json(reading.get("form", {})))
    if request.metadata:
        raise RejectedInput(Code.BAD_REQUEST, "a replay must be a data message; send metadata messages as changes")
    earlier = EarlierReading(reading["version"])
    return ParsedRequest(
        _settled(ReplicateTables(table_cache, principal, marker_first, earlier=earlier), request, table)
    )


def _settled(
    tables: ReplicateTables, request: ReplicateRequest, table: TableName | None, partition: str | None = None
) -> list[SourceChanges]:
    sources = [
        SourceChanges(SourceName.address(name), changes, order_key(task, partition))
        for name, task, changes in tables.route(request, table)
    ]
    return sources + [
        SourceChanges(SourceName.address(name), rejected=[rejected]) for name, rejected in tables.rejected
    ]


def _written_replicate(
    body: bytes,
    tables: ReplicateTables,
    request: ReplicateRequest,
    table: TableName | None,
    form: MessageForm,
    indexes: Collection[int],
) -> dict[int, WrittenMessage]:
    messages = raw_messages(body)
    reading: dict[str, Any] = {} if form == STANDARD else {"form": form.to_json()}
    return {
        index: WrittenMessage(LetterFormat.REPLICATE, messages[index], reading | {"version": version})
        for index, version in tables.written_under(request, table, indexes).items()
    }
