"""Plain rows, which `app.formats` reads; the answers to change requests, and the state of their batches."""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.api.schemas.common import Model


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
    """How many messages the batch contains."""

    rows: int
    """How many rows will land."""


class RegisteredModel(Model):
    """What a request registered before its changes were read."""

    table: str
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
    """How far a producer is. Its receipts are null after retention has purged them."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"producer": "orders", "sequence": 17, "position": "line 17", "receipts": [_RECEIPT]}]
        }
    )

    producer: str
    sequence: int
    """The number of its last durable request."""

    position: str | None
    """The last `Mirrorgate-Producer-Position` of its durable requests; null if none had one."""

    receipts: list[ReceiptModel] | None


class WithheldModel(Model):
    """Columns that a dry run withholds from a key without the right `read`: masked or stored values."""

    row: int
    """The index of the row in `rows`, from 0."""

    columns: list[str]
    """The columns that are masked, and those that the stored row fills."""


class DryRunTableModel(Model):
    """The rows that would land in a table, by column name, including `__rowMarker__`."""

    table: str
    generation: int
    schema_version: int
    rows: list[dict[str, Any]]
    """The rows in landing order."""

    withheld: list[WithheldModel] | None = None
    """Columns that only a key with the right `read` can see; absent if there are none."""

    omitted_rows: int | None = None
    """How many more rows would land: the answer ends at 16 MiB of rows; absent if it has all of them."""


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
    ignored: int
    duplicates: int


class BatchModel(Model):
    """The state of a change batch, and its file.

    `discarded` means that the generation ended before the batch was published. The counts and the file are null after
    retention has purged them.
    """

    model_config = ConfigDict(
        json_schema_extra={"examples": [_RECEIPT | {"state": "published", "file": "00000000000000000002.parquet"}]}
    )

    table: str
    generation: int
    sequence: int
    state: Literal["pending", "planned", "published", "discarded"]
    changes: int | None
    rows: int | None
    file: str | None
