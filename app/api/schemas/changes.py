"""Answers to changes, dead letters, and layouts of Replicate messages.

Plain rows are described here, too: `app.formats` reads them, and checks more strictly.
"""

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.api.schemas.common import Model, TableAnswer
from app.domain.model.dead_letter import LetterFormat, LetterState
from app.ingest import MAX_OPERATION_CHARACTERS, MAX_OPERATIONS


class PlainRow(BaseModel):
    """A row by column name, as typed JSON values. `null` is NULL; numbers keep all their digits."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    operation: Annotated[str | None, Field(alias="__op__", examples=["delete"])] = None
    """`upsert`, `insert`, `update` or `delete`, or R, I, U or D, in any letter case; by default `op` of the request."""


class ReceiptModel(Model):
    """One durable change batch."""

    table: str
    """`name` or `schema.name`."""

    generation: int
    """The generation of the table: one lifetime of its landing folder."""

    sequence: int
    """The dense number of the batch in the generation, in commit order."""

    changes: int
    """Number of messages that the batch contains."""

    rows: int
    """Number of rows that will land."""


class RegisteredModel(Model):
    """A table that a request registered before its changes were read."""

    table: str
    """The name of the table."""

    outcome: Literal["created", "evolved"]
    """`evolved` if the table existed and got columns."""


_RECEIPT: Final[dict[str, Any]] = {"table": "tpch.nation", "generation": 1, "sequence": 1, "changes": 2, "rows": 2}


class AcceptedModel(Model):
    """The answer to a change request, sent after COMMIT."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"receipts": [_RECEIPT], "ignored": 0, "duplicates": 0, "dead_letters": 0, "replayed": False}]
        }
    )

    receipts: list[ReceiptModel]
    """One receipt per table."""

    ignored: int
    """Messages without a body."""

    duplicates: int
    """Changes that the source order identifies as accepted before."""

    dead_letters: int
    """Messages that were rejected and are kept as dead letters."""

    replayed: bool
    """True if the request was accepted before; the other fields then repeat the first answer."""

    registered: list[RegisteredModel] | None = None
    """The table that the request declared, if it was created or got columns; otherwise absent."""


class ProducerModel(Model):
    """The progress of a producer. Its receipts are null after retention has purged them."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"producer": "orders", "sequence": 17, "position": "line 17", "receipts": [_RECEIPT]}]
        }
    )

    producer: str
    """The name of the producer."""

    sequence: int
    """The number of its last durable request."""

    position: str | None
    """The last `Mirrorgate-Producer-Position` of its durable requests; null if none had one."""

    receipts: list[ReceiptModel] | None
    """The receipts of that request; null after retention has purged them."""


class WithheldModel(Model):
    """Columns that a dry run withholds from a key without the right `read`: masked or stored values."""

    row: int
    """The index of the row in `rows`, from 0."""

    columns: list[str]
    """The columns that are masked, and those that the stored row fills."""


class DryRunTableModel(TableAnswer):
    """The rows that would land in a table, by column name, including `__rowMarker__`."""

    schema_version: int
    """The number of the schema version, from 1."""

    rows: list[dict[str, Any]]
    """The rows in landing order."""

    withheld: list[WithheldModel] | None = None
    """Columns that only a key with the right `read` can see; absent if there are none."""

    omitted_rows: int | None = None
    """Number of further rows that would land: the answer ends at 16 MiB of rows; absent if it has all of them."""


class DryRunModel(Model):
    """The answer to a change request with `dry_run=true`: nothing was staged or registered."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "tables": [
                        {
                            "table": "tpch.nation",
                            "generation": 1,
                            "schema_version": 1,
                            "rows": [{"n_nationkey": 100, "n_name": "Testing name", "__rowMarker__": 4}],
                        }
                    ],
                    "ignored": 0,
                    "duplicates": 0,
                }
            ]
        }
    )

    tables: list[DryRunTableModel]
    """The tables that the changes would land in."""

    ignored: int
    """Messages without a body, repeated metadata, and events that change no row."""

    duplicates: int
    """Changes that the source order identifies as accepted before."""


class BatchModel(TableAnswer):
    """The state of a change batch, and its file.

    `discarded` means that the generation ended before the batch was published. The counts and the file are null after
    retention has purged them.
    """

    model_config = ConfigDict(
        json_schema_extra={"examples": [_RECEIPT | {"state": "published", "file": "00000000000000000002.parquet"}]}
    )

    sequence: int
    """The number of the batch in the generation."""

    state: Literal["pending", "planned", "published", "discarded"]
    """`pending`: accepted. `planned`: its file is being built. `published`: its file is in the landing zone.
    `discarded`: the generation ended first."""

    changes: int | None
    """Number of messages that the batch contains; null after retention has purged it."""

    rows: int | None
    """Number of rows that land; null after retention has purged it."""

    file: str | None
    """The name of its file; null before it is planned, and after retention has purged it."""


class LetterErrorModel(Model):
    """One error of the message, as a rejected request would report it."""

    code: str
    """The error code."""

    detail: str
    """Explanation of the problem, without row values."""

    pointer: str | None = None
    """A JSON Pointer into the message; absent if the error concerns all of it."""

    column: str | None = None
    """The column that is wrong; absent if the error concerns none."""


class DeadLetterModel(Model):
    """A rejected message of an accepted request.

    `index` is the index of the message in the request, `request` the idempotency key or the producer, and
    `replayed_sequence` the batch that a replay put it in.
    """

    id: int
    """The number of the dead letter, in the order of arrival."""

    generation: int
    """The generation of the table: one lifetime of its landing folder."""

    format: LetterFormat
    """The format of the message."""

    bytes: int
    """The size of the message."""

    index: int
    """The index of the message in its request, from 0."""

    errors: list[LetterErrorModel]
    """Problems of the message."""

    key_id: str
    """The id of the key that sent it."""

    key_name: str | None
    """The name of the key that sent it, also of a deleted one; null if it has none."""

    request: str | None
    """The idempotency key or the producer of its request; null without either."""

    producer_sequence: int | None
    """The number that the producer gave its request; null without a producer."""

    received_at: datetime
    """Time at which the request was accepted."""

    state: LetterState
    """`waiting`, `replayed` or `discarded`."""

    settled_at: datetime | None
    """Time at which it was replayed or discarded; null while it waits."""

    settled_by: str | None
    """The id of the key that replayed or discarded it; null while it waits."""

    settled_by_name: str | None
    """The name of the key that replayed or discarded it."""

    corrected: bool
    """True if the message was corrected in the replay."""

    replayed_sequence: int | None
    """The batch that the replay put it in; null if it was not replayed."""


class DeadLettersModel(Model):
    """A page of dead letters. `next_after` is the `after` of the next page; null on the last page."""

    table: str
    """The name of the table, `name` or `schema.name`."""

    letters: list[DeadLetterModel]
    """The dead letters, by id."""

    next_after: int | None
    """The `after` of the next page; null on the last page."""


class ReplayedModel(Model):
    """The receipt of a replayed dead letter, sent after COMMIT."""

    id: int
    """The number of the dead letter."""

    receipt: ReceiptModel
    """The batch that the message is in."""


class ReplayedLettersModel(Model):
    """The result of a replay: `rejected` messages remain dead letters.

    `next_after` is the `after` of the next call; null if no more dead letters wait.
    """

    replayed: int
    """Number of messages that were accepted."""

    rejected: int
    """Number of messages that were rejected again, and remain dead letters."""

    next_after: int | None
    """The `after` of the next call; null if no more dead letters wait."""


class DiscardedModel(Model):
    """The number of discarded dead letters."""

    discarded: int
    """Number of messages that were discarded."""


_PLACE: Final = r"^((/[^/\x00-\x1f]+){1,9}|[^/.\x00-\x1f][^.\x00-\x1f]*(\.[^.\x00-\x1f]+){0,8})$"
"""Locations that `Place.parse` accepts, and little else: the contract shows it, and the parser words what is wrong."""

Place = Annotated[str, Field(min_length=1, max_length=1_024, json_schema_extra={"pattern": _PLACE})] | None
_OPERATIONS: Final[dict[str, Any]] = {
    "maxProperties": MAX_OPERATIONS,
    "propertyNames": {"minLength": 1, "maxLength": MAX_OPERATION_CHARACTERS, "pattern": r"^[^\x00-\x1f]+$"},
}


class LayoutModel(Model):
    """The locations of the parts of Replicate's messages in a custom format.

    A place is a JSON Pointer (`/payload/row`) or names with dots (`payload.row`). One that ends in `*` is all keys with
    that beginning: `headers_*` has the key `headers_operation` as `operation`, and `*` is every key that no other part
    has. A part that is not given is not read.

    A layout needs `data` or `before_data`, and `operation` or `headers`. Two parts cannot have the same place, and only
    `data`, `before_data`, `key` and `headers` can end in `*`.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "minProperties": 2,
            "examples": [
                {
                    "data": "payload.row",
                    "before_data": "payload.old",
                    "headers": "meta_*",
                    "operations": {"I": "insert", "U": "update", "D": "delete"},
                }
            ],
        }
    )

    data: Place = None
    """The row after the change; for a delete, the deleted row."""

    before_data: Place = None
    """The row before an update."""

    key: Place = None
    """The key of a deleted row without an image."""

    headers: Place = None
    """All headers together, by the names that Replicate gives them."""

    operation: Place = None
    """The operation. Needed without `headers`."""

    change_sequence: Place = None
    """The source position."""

    change_mask: Place = None
    """The mask of columns that changed."""

    column_mask: Place = None
    """The mask of columns that were captured."""

    external_schema_id: Place = None
    """The id that changes with the structure of the table."""

    transaction_last_event: Place = None
    """Location of the mark of a transaction's last change."""

    schema_id: Place = None
    """The id of the metadata that describes the message."""

    schema_: Annotated[Place, Field(alias="schema")] = None
    """The schema of the table."""

    table: Place = None
    """The name of the table."""

    operations: Annotated[
        dict[str, Literal["insert", "update", "delete", "refresh"]] | None, Field(json_schema_extra=_OPERATIONS)
    ] = None
    """Names of operations besides Replicate's own, in any letter case."""

    def document(self) -> dict[str, Any]:
        """Return the parts that are given."""
        return self.model_dump(by_alias=True, exclude_none=True)


class StoredLayoutModel(Model):
    """A layout and its name."""

    name: str
    """The name of the layout."""

    layout: LayoutModel
    """Locations of the parts of messages."""

    changed_at: datetime
    """Time at which it was last changed."""

    changed_by: str | None = None
    """Author of the last change: the id of a key or the subject of a token, shown to callers who may change layouts."""


class LayoutsModel(Model):
    """All layouts by name."""

    layouts: list[StoredLayoutModel]
    """The layouts, by name."""
