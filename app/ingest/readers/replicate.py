"""Bodies of Qlik Replicate's messages, and the cache of what Postgres stores of their sources.

With the cache, a request whose table and source version were seen before needs no query.

Invariant: an entry can be out of date, and the sequence lock notices it. Metadata that changes advances the revision of
its table, which every batch is checked for; a batch whose table was found by a schema id is also checked for the tables
that have the id. An id without a table is never cached.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Final, TypeAlias

from app.domain.access.rights import Principal
from app.domain.model.dead_letter import LetterFormat, WrittenMessage
from app.domain.model.names import SourceName, TableName
from app.domain.model.table import Table, TableId
from app.domain.rows.source_order import order_key
from app.formats.avro import DecodePlan
from app.formats.json.decoder import raw_messages
from app.formats.replicate.avro_records import AvroBody, plan_of
from app.formats.replicate.columnar import Address, DataBody, DataColumns, decode_data_messages, is_keyed
from app.formats.replicate.columnar_images import ImageReader
from app.formats.replicate.history import SourceVersion
from app.formats.replicate.layouts import STANDARD, Layout, MessageForm, read_layout
from app.formats.replicate.messages import ReplicateRequest, decode_replicate
from app.ingest.columnar import Asked, Decline, Declined, Opened, OpenedBody, TablePart, opened_or_why
from app.ingest.parsed_request import ParsedRequest, SourceChanges
from app.ingest.readers.body_reader import BodyReader
from app.ingest.replicate_tables import EarlierReading, ReplicateTables, StoredSchemas, history_of
from app.ingest.table_cache import NotCached, TableCache
from app.staging.batches.batch import SchemaIdTables
from app.staging.connection.database import translated_errors
from app.staging.tables.replicate_sources import find_layout, names_with_schema_id, source_facts
from mirrorgate.avro_envelope import MAGIC, AvroEnvelope, read_envelopes
from mirrorgate.errors import Code, RejectedInput, TemporarilyUnavailable

MAX_CACHED_SOURCES: Final = 4_000
"""Tables whose sources are kept in memory."""


@dataclass(frozen=True, slots=True)
class CachedSource:
    """The current version of a table's source; None if no metadata message declared one."""

    table: Table
    """The table as it was when the version was read."""
    version: SourceVersion | None
    reader: ImageReader | None
    """Reads the source's messages; None for a table whose column names exclude that."""

    def is_of(self, table: Table) -> bool:
        """Return True if this is the source of the table as it is in `table`."""
        return self.table.typed_under == table.typed_under


@dataclass(frozen=True, slots=True)
class FoundSource:
    """The table of a message, the version of its source, and the schema id by which it was found."""

    table: Table
    source: CachedSource
    found_by: SchemaIdTables | None


@dataclass(frozen=True, slots=True)
class SourceCache:
    """Cache of the table and the source version of data messages; all readers share the table cache."""

    table_cache: TableCache

    def find(
        self, requested: SourceName | None, own: SourceName | None, schema_id: str | None, principal: Principal
    ) -> FoundSource | None:
        """Return what a message is for: `?table=`, its own address and its schema id must agree.

        None where they do not, where the caller has no such table, or where the schema id is not that of the current
        version. Raises NotCached if a query has to find it first.
        """
        addresses = [address for address in (requested, own) if address is not None]
        found_by = None
        if not addresses:
            if schema_id is None:
                return None
            found_by = self._tables_of(schema_id)
            names = [name for name in map(TableName.parse, found_by.names) if principal.may_touch(name)]
            if len(names) != 1:
                return None
            addresses = [SourceName.address(names[0])]
        for address in addresses:
            self.table_cache.require_cached(address)
        tables = [self.table_cache.get_cached(address, principal) for address in addresses]
        table = tables[0]
        if table is None or any(other is None or other.table_id != table.table_id for other in tables):
            return None
        source = self._source_of(table, addresses)
        if schema_id is not None and (source.version is None or source.version.schema_id != schema_id):
            return None
        return FoundSource(table, source, found_by)

    def keep(self, source: CachedSource) -> None:
        """Cache the source of a table."""
        if len(self.table_cache.replicate_sources) >= MAX_CACHED_SOURCES:
            self.table_cache.replicate_sources.clear()
            self.table_cache.image_types.clear()
        self.table_cache.replicate_sources[source.table.table_id] = source
        if source.reader and source.version and source.version.schema_id:
            self.table_cache.image_types[source.version.schema_id] = source.reader.image_type

    def _tables_of(self, schema_id: str) -> SchemaIdTables:
        names = self.table_cache.described.get(schema_id)
        if names is None:
            raise NotCached(partial(self._look_up_names, schema_id))
        return SchemaIdTables(schema_id, names)

    def _source_of(self, table: Table, addresses: list[SourceName]) -> CachedSource:
        source: CachedSource | None = self.table_cache.replicate_sources.get(table.table_id)
        if source is not None and source.is_of(table):
            return source
        raise NotCached(partial(self._look_up_source, table, addresses))

    def _look_up_names(self, schema_id: str) -> frozenset[str] | None:
        """Cache the tables of a schema id, and the one table with its source."""
        with translated_errors(), self.table_cache.begin() as connection:
            names = self.table_cache.note_described(schema_id, names_with_schema_id(connection, schema_id))
        if len(names) == 1:
            address = SourceName.address(TableName.parse(next(iter(names))))
            table = self.table_cache.route(address)
            if table is not None:
                self._look_up_source(table, [address])
        return names or None

    def _look_up_source(self, table: Table, addresses: list[SourceName]) -> object:
        """Cache the source of a table, and return None if the table is gone.

        A table that has changed since it was cached is queried again the next time.
        """
        with translated_errors(), self.table_cache.begin() as connection:
            facts = source_facts(connection, table.name)
        if facts is None or (facts.table_id, facts.revision) != (table.table_id, table.revision):
            for address in addresses:
                self.table_cache.forget(address)
            return facts
        history = history_of(facts)
        version = history.current if history else None
        source = CachedSource(table, version, _reader_of(table, version))
        self.keep(source)
        return source


def _reader_of(table: Table, version: SourceVersion | None) -> ImageReader | None:
    try:
        return ImageReader(table.schema.names, frozenset(table.options.exclude), version)
    except ValueError:
        return None


_SCHEMA_ID: Final = re.compile(rb'"messageSchemaId"[ \t\r\n]*:[ \t\r\n]*"([^"\\]+)"')
_HAS_BYTES: Final = re.compile(rb'"message"[ \t\r\n]*:[ \t\r\n]*"')
_MIN_MESSAGE_BYTES: Final = len(b'{"message":{"data":{},"headers":{"operation":""}}}')
"""Bytes of the shortest message with an image. A table of so many columns needs no count of the messages."""

_MAX_HEAD: Final = 1_024
"""Bytes at the start of a body, which have a schema id if its messages have an envelope."""

_Found: TypeAlias = dict[tuple[Address, TableName | None, int], FoundSource]
"""The sources of requests that are read together, by what told them: an address, `?table=` and a caller."""


@dataclass(frozen=True, slots=True)
class ReplicateJson(BodyReader):
    """A Replicate body. Its metadata messages register tables, and take the exact path.

    `form` says how to read messages that differ from Replicate's default format; `layout` is the name of a stored
    layout for it.
    """

    source_format: ClassVar = LetterFormat.REPLICATE
    table: TableName | None = None
    form: MessageForm = field(default=STANDARD, kw_only=True)
    layout: str | None = field(default=None, kw_only=True)

    @property
    def is_columnar(self) -> bool:
        """False for messages of a custom form."""
        return self.layout is None and self.form.layout is None and self.form.table_from is None

    @property
    def has_layout(self) -> bool:
        """True if a stored layout says how messages are read."""
        return self.layout is not None

    @classmethod
    def columnar(cls, asked: "Sequence[Asked[ReplicateJson]]", table_cache: TableCache, /) -> list[Opened]:
        """Decode the messages of all bodies together, and find their tables."""
        read = [body._in_json(principal, table_cache) for body, principal in asked]
        plain = [
            Asked(body, principal)
            for body, (_, principal) in zip(read, asked, strict=True)
            if isinstance(body, ReplicateJson)
        ]
        opened = iter(_opened(plain, table_cache) if plain else [])
        return [next(opened) if isinstance(body, ReplicateJson) else body for body in read]

    def exact(self, table_cache: TableCache, principal: Principal) -> ParsedRequest:
        """Decode message by message."""
        form = self.form if self.layout is None else replace(self.form, layout=_stored_layout(self.layout, table_cache))
        schemas = StoredSchemas(table_cache, principal, self.table).find
        request = decode_replicate(self.body, self.limits, form, schemas=schemas, keep_rejected=self.keep_rejected)
        tables = ReplicateTables(table_cache, principal, keep_rejected=self.keep_rejected)
        sources = _settled(tables, request, self.table, self.partition)
        ignored = request.ignored + tables.repeated
        written = partial(self._written, tables, request, form) if self.keep_rejected else None
        return ParsedRequest(sources, ignored, written=written, max_value_bytes=self.max_value_bytes)

    def _in_json(self, principal: Principal, table_cache: TableCache) -> "ReplicateJson | Opened":
        """Return the body with its records in JSON: itself, unless they are in Avro. Many of one schema are opened."""
        if _HAS_BYTES.search(self.body, 0, _MAX_HEAD) is None or (found := AvroBody.of_json(self.body)) is None:
            return self
        return self._decoded(found, principal, table_cache)

    def _decoded(self, found: AvroBody, principal: Principal, table_cache: TableCache) -> "ReplicateJson | Opened":
        try:
            if len(found) > self.limits.messages:
                return Declined(Decline.BODY)
            if found.is_for_columns and (opened := self._by_column(found, principal, table_cache)) is not None:
                return opened
            plans = {one: self._plan(one, principal, table_cache) for one in found.schema_ids}
            return replace(self, body=found.as_json(plans, self.limits))
        except (Declined, NotCached) as why:
            return why
        except (RejectedInput, TemporarilyUnavailable):  # the exact path meets the same trouble, and tells the caller
            return Declined(Decline.BODY)

    def _by_column(self, found: AvroBody, principal: Principal, table_cache: TableCache) -> OpenedBody | None:
        """Return the messages of one schema as they were read by column, None if they have to become JSON first."""
        [schema_id] = found.schema_ids
        source = self._find(Address(schema_id, None, None), principal, table_cache).source
        if source.reader is None or source.version is None or source.version.data_schema is None:
            raise Declined(Decline.TABLE)
        image, _ = source.reader.image_type.__args__
        decoded = found.as_columns(source.version.data_schema, image, self.limits)
        return decoded and self._by_table(principal, {}, decoded, table_cache)

    def _plan(self, schema_id: str, principal: Principal, table_cache: TableCache) -> DecodePlan:
        """Return what decodes the records of the current version of a table. Raises Declined or NotCached."""
        source = self._find(Address(schema_id, None, None), principal, table_cache).source
        if source.version is None or source.version.data_schema is None:
            raise Declined(Decline.TABLE)
        return plan_of(source.version.data_schema)

    def _image_type(self, table_cache: TableCache) -> Any:
        """Return the type of the images that follow the first schema id, which is usually that of all messages.

        None if images with all of its columns would have more of them than the body has bytes: its images have few.
        """
        found = _SCHEMA_ID.search(self.body, 0, _MAX_HEAD)
        image_type = table_cache.image_types.get(found[1].decode(errors="replace")) if found else None
        if image_type is None:
            return None
        columns = len(image_type.__args__[0].__struct_fields__)
        fits = columns <= _MIN_MESSAGE_BYTES or columns * self.body.count(b'"data"') <= len(self.body)
        return image_type if fits else None

    def _by_table(
        self, principal: Principal, sources: _Found, decoded: DataBody | None, table_cache: TableCache
    ) -> OpenedBody:
        if decoded is None or self.max_value_bytes is not None or len(decoded.columns.data) > self.limits.messages:
            raise Declined(Decline.BODY)
        columns, addresses = decoded
        found: dict[TableId, tuple[FoundSource, list[int]]] = {}
        for address, indexes in addresses.items():
            asked = (address, self.table, id(principal))
            source = sources.get(asked) or sources.setdefault(asked, self._find(address, principal, table_cache))
            known, at = found.get(source.table.table_id, (source, []))
            found[source.table.table_id] = (known if known.found_by else source, [*at, *indexes])
        return OpenedBody(
            [
                self._part(source, columns if len(found) == 1 else columns.at(sorted(indexes)))
                for source, indexes in found.values()
            ]
        )

    def _find(self, address: Address, principal: Principal, table_cache: TableCache) -> FoundSource:
        """Return the source of messages with this address. Raises Declined or NotCached."""
        try:
            own = SourceName.of(None, address.schema, address.table) if address.table else None
        except RejectedInput:
            raise Declined(Decline.TABLE) from None
        requested = SourceName.address(self.table) if self.table else None
        found = SourceCache(table_cache).find(requested, own, address.schema_id, principal)
        if found is None or not found.table.state.accepts_changes or found.table.schema.can_need_marker:
            raise Declined(Decline.TABLE)
        return found

    def _part(self, found: FoundSource, columns: DataColumns) -> TablePart:
        if found.source.reader is None:
            raise Declined(Decline.TABLE)
        version = found.source.version
        task = order_key("" if version is None else version.task or "", self.partition)
        return TablePart(found.table, found.source.reader, columns, len(columns.operations), found.found_by, task)

    def _written(
        self, tables: ReplicateTables, request: ReplicateRequest, form: MessageForm, indexes: Collection[int]
    ) -> dict[int, WrittenMessage]:
        messages = raw_messages(self.body)
        reading: dict[str, Any] = {} if form == STANDARD else {"form": form.to_json()}
        return {
            index: WrittenMessage(LetterFormat.REPLICATE, messages[index], reading | {"version": version})
            for index, version in tables.written_under(request, self.table, indexes).items()
        }


def _opened(asked: Sequence[Asked[ReplicateJson]], table_cache: TableCache) -> list[Opened]:
    """Decode the messages of bodies in JSON together, and find their tables."""
    image_types = [body._image_type(table_cache) for body, _ in asked]
    bodies = [body.body if body.form.keyed in {None, is_keyed(body.body)} else b"" for body, _ in asked]
    found: _Found = {}
    return [
        opened_or_why(body._by_table, principal, found, decoded, table_cache)
        for (body, principal), decoded in zip(asked, decode_data_messages(bodies, image_types), strict=True)
    ]


@dataclass(frozen=True, slots=True)
class ReplicateAvro(ReplicateJson):
    """A body in Avro: envelopes of Replicate one after the other, or one record without an envelope.

    `schema_id` names the schema of a record without an envelope, which Avro cannot be read without.
    """

    schema_id: str | None = field(default=None, kw_only=True)

    def exact(self, table_cache: TableCache, principal: Principal) -> ParsedRequest:
        """Decode message by message."""
        body = b"\n".join([envelope.to_json() for envelope in self._envelopes()])
        return self._as_json(body).exact(table_cache, principal)

    def _in_json(self, principal: Principal, table_cache: TableCache) -> "ReplicateJson | Opened":
        try:
            found = AvroBody.of_envelopes(self._envelopes())
        except RejectedInput:
            found = None
        return Declined(Decline.BODY) if found is None else self._as_json(b"")._decoded(found, principal, table_cache)

    def _envelopes(self) -> list[AvroEnvelope]:
        """Return the messages of the body. Raises RejectedInput."""
        if self.body.lstrip(b"\r\n").startswith(MAGIC):
            return read_envelopes(self.body, self.limits.check_messages)
        if not self.body:
            raise RejectedInput(Code.EMPTY_REQUEST, "the body contains no message")
        if self.schema_id is None:
            detail = "a record without Replicate's envelope needs the parameter `schema_id`"
            raise RejectedInput(Code.BAD_REQUEST, detail)
        return [AvroEnvelope(MAGIC.decode(), "DT", self.schema_id, None, self.body)]

    def _as_json(self, body: bytes) -> ReplicateJson:
        """Return the same request with a body in JSON."""
        return ReplicateJson(
            body,
            self.table,
            limits=self.limits,
            keep_rejected=self.keep_rejected,
            partition=self.partition,
            form=self.form,
            layout=self.layout,
        )


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
) -> ParsedRequest:
    """Read one kept data message under the metadata version that it was read under."""
    schemas = StoredSchemas(table_cache, principal, table).find
    request = decode_replicate(content, form=MessageForm.from_json(reading.get("form", {})), schemas=schemas)
    if request.metadata:
        raise RejectedInput(Code.BAD_REQUEST, "a replay must be a data message; send metadata messages as changes")
    earlier = EarlierReading(reading["version"])
    return ParsedRequest(_settled(ReplicateTables(table_cache, principal, earlier=earlier), request, table))


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
