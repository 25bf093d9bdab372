"""Qlik Replicate JSON: metadata (MD) and data (DT) messages -> metadata and changes.

By default a data message does not name its table: its envelope gives the schema id of the metadata message that
describes it, and its masks count columns in that message's order. `versions` resolves both. `forms` finds the parts of
a message, `data_messages` says what they mean. Source: docs/reference/replicate.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from app.domain.model.change import UNLIMITED, InputLimits
from app.domain.model.dead_letter import is_kept
from app.formats.json.decoder import MessageDecoder
from app.formats.json.texts import split
from app.formats.replicate.avro_records import AvroMessages, SchemaLookup, is_avro, kept_schema
from app.formats.replicate.data_messages import DataChange, Images, MessageAddress, RejectedData, data_change
from app.formats.replicate.forms.layouts import STANDARD, CustomForm, MessageForm
from app.formats.replicate.forms.standard_form import DataParts, StandardBody, data_parts, is_metadata, text, unwrap
from app.formats.replicate.metadata import TableMetadata, read_metadata
from mirrorgate.errors import Code, Problem, RejectedInput


@dataclass(frozen=True, slots=True)
class ReplicateRequest:
    """The messages of a body, each kind in order; `ignored` counts messages without a body."""

    metadata: list[TableMetadata]
    changes: list[DataChange]
    ignored: int
    rejected: list[RejectedData] = field(default_factory=list)
    """Data messages that are set aside."""
    routing_columns: frozenset[str] = frozenset()
    """Columns that name the table, and that are data only if the table has them."""


_DECODER: Final[MessageDecoder[dict[str, Any] | None]] = MessageDecoder(dict[str, Any] | None)  # type: ignore[arg-type]  # msgspec reads a union where typing wants a class


def decode_replicate(
    body: bytes,
    limits: InputLimits = UNLIMITED,
    form: MessageForm = STANDARD,
    *,
    schemas: SchemaLookup = lambda _: None,
    keep_rejected: bool = False,
) -> ReplicateRequest:
    """Read a JSON body. Raises RejectedInput naming every wrong message.

    `schemas` finds the schemas of messages in Avro that earlier requests declared. With `keep_rejected`, wrong data
    messages are set aside instead.
    """
    columns = form.table_from.columns if form.table_from else frozenset()
    request = ReplicateRequest([], [], 0, routing_columns=columns)
    reader = _Reader(request, form, AvroMessages(schemas, limits), keep_rejected=keep_rejected)
    for index, element in enumerate(_DECODER.decode(body, limits)):
        reader.add(index, element)
    if reader.problems:
        raise RejectedInput.of(tuple(reader.problems))
    return replace(request, ignored=reader.ignored)


class _Reader:
    """Reader of the elements of one body into a request."""

    def __init__(
        self, request: ReplicateRequest, form: MessageForm, avro: AvroMessages, *, keep_rejected: bool
    ) -> None:
        self.problems: list[Problem] = []
        self.ignored = 0
        self._avro = avro
        self._request, self._form, self._keep_rejected = request, form, keep_rejected
        self._custom = CustomForm(form.layout) if form.layout else None
        self._address: MessageAddress | None = None
        """Address in the present message, once it is known."""

    def add(self, index: int, element: Mapping[str, Any] | None) -> None:
        """Read one element, or note what is wrong with it."""
        try:
            self._read(index, element)
        except RejectedInput as error:
            if error.code is Code.BODY_TOO_LARGE:
                raise  # the memory of the request, not a message
            found = error.problems or (Problem(error.code, error.detail, index),)
            if self._address is not None and self._keep_rejected and is_kept(found):
                self._request.rejected.append(RejectedData(index, *self._address, found))
            else:
                self.problems.extend(found)

    def _read(self, index: int, element: Mapping[str, Any] | None) -> None:
        self._address = None
        key, message, at = split(index, element, self._form.keyed)
        if is_avro(message):
            message = self._decoded(index, message, at)
        if message is None:
            self.ignored += 1
        elif self._custom is not None and not is_metadata(message):
            self._read_custom(self._custom, index, message, at, key)
        elif (body := unwrap(index, message, at)) is None:
            self.ignored += 1
        elif body.typed.tableStructure:
            structure, lineage = body.typed.tableStructure, body.typed.lineage or None
            entry = read_metadata(index, text(body.typed.schemaId), lineage, structure, body.at)
            data_schema = kept_schema(body.typed.dataSchema)
            self._avro.declare(entry.schema_id, data_schema)
            self._request.metadata.append(replace(entry, data_schema=data_schema))
        else:
            self._read_standard(index, body, message, at, key)

    def _decoded(self, index: int, message: Mapping[str, Any], at: str) -> Mapping[str, Any]:
        """Return a message in Avro as it is in JSON. If its bytes are wrong, its schema id still names its table."""
        schema_id = message.get("messageSchemaId")
        if isinstance(schema_id, str) and message.get("type") == "DT" and self._form.table_from is None:
            self._address = MessageAddress(None, schema_id)
        return self._avro.decoded(index, message, at)

    def _read_standard(self, index: int, body: StandardBody, message: Mapping[str, Any], at: str, key: Any) -> None:
        if self._form.table_from is None:
            self._address = MessageAddress(body.source, body.schema_id)
        self._add_change(index, data_parts(index, body, key), message, at, body.schema_id)

    def _read_custom(self, custom: CustomForm, index: int, message: Mapping[str, Any], at: str, key: Any) -> None:
        schema_id = custom.schema_id(message, index, at)
        if self._form.table_from is None:
            self._address = MessageAddress(custom.source(message, index, at), schema_id)
        self._add_change(index, custom.parts(message, index, at, key), message, at, schema_id)

    def _add_change(
        self, index: int, parts: DataParts, message: Mapping[str, Any], at: str, schema_id: str | None
    ) -> None:
        images = Images.of(index, parts)
        if self._form.table_from is not None:
            row, row_at = images.row(parts)
            self._address = MessageAddress(self._form.table_from.source(message, row, row_at, index, at), schema_id)
        assert self._address is not None
        self._request.changes.append(data_change(index, parts, images, self._address))
