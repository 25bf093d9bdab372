"""Requests for operations on tables, the progress of rebuilds, the events that operations leave, and source checks."""

from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field

from app.api.schemas.common import Model
from app.api.schemas.tables import ColumnModel, RegisterTable, declared_columns
from app.domain.model.table import DropAction
from app.domain.rebuild import RebuildPhase, RebuiltColumn
from app.domain.source_checks import MAX_DIGITS
from mirrorgate.errors import Code


class RecreateTable(RegisterTable):
    """The columns, keys and options of the new generation. What is left out remains as it is."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"options": {"reload": "upsert"}}]})


class RenameTable(Model):
    """The new name, `name` or `schema.name`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "tpch.country"}]})

    name: str
    """A name that no table has."""


class ReleaseTable(Model):
    """The reason that the table can publish again: the cause and its correction."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "The foreign file was removed."}]})

    reason: Annotated[str, Field(min_length=1, max_length=1000)]
    """The reason, kept with the table's events."""
    rewrite_marker: bool = False
    """Write a damaged or lost `_gateway.json` again.

    The drain does so only if the files of the ledger are in the folder, checked by size and digest. Otherwise the table
    is quarantined again."""


class EventModel(Model):
    """One operation of an administrator (`actor` is the id of the key) or of the drain."""

    id: int
    """The number of the event."""

    generation: int
    """The generation that the event concerns."""

    happened_at: datetime
    """Time of the event."""

    actor: str
    """The id of a key, `oidc:<subject>` for a token, or `drain`."""

    actor_name: str | None
    """The name of the key, also of a deleted one; null if it has none."""

    action: str
    """The operation."""

    completes: DropAction | None
    """The operation that the drain finished with this event, null for every other event. `generation` is then the
    generation that ended."""
    reason: str | None
    """The reason that the caller gave; null without one."""

    details: dict[str, Any]
    """Facts of the operation by name."""


class EventsModel(Model):
    """A page of events. `next_after` is the `after` of the next page; null on the last page."""

    events: list[EventModel]
    """The events, by id."""

    next_after: int | None
    """The `after` of the next page; null on the last page."""


class RebuiltColumnModel(ColumnModel):
    """A column of the next generation."""

    from_: Annotated[str | None, Field(alias="from")] = None
    """The present column that has its values. Default: the one of the same name."""


class RebuildTable(Model):
    """The columns and keys of the next generation. What is left out remains as it is."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"columns": [{"name": "number", "type": "int64", "nullable": False, "from": "id"}]}]
        }
    )

    key_columns: list[str] | None = None
    """The key columns in key order."""

    columns: list[RebuiltColumnModel] | None = None
    """The columns in file order. A present column that no entry takes its values from is dropped."""

    dry_run: bool = False
    """Only find out what would not fit and how long the rebuild would take."""

    def rebuilt_columns(self) -> list[RebuiltColumn] | None:
        """Return the columns in the domain's form. Raises RejectedInput like `declared_columns`."""
        if self.columns is None:
            return None
        columns = declared_columns(self.columns, self.key_columns or ())
        return [
            RebuiltColumn(column, given.from_ or given.name)
            for column, given in zip(columns, self.columns, strict=True)
        ]


class FindingModel(Model):
    """Rows that do not fit the plan. Their values are never shown."""

    column: str | None = Field(description="The column under its new name; null for duplicate keys.")
    code: Code = Field(description="`bad_value`, `null_value`, `null_key` or `key_in_use` (a duplicate key).")
    rows: int = Field(description="How many rows; of duplicate keys, a rebuild that failed knows only that there are.")
    first_row: int = Field(
        description="The position of the first of them, from 1, in the order of `mirrorgate tables export-rows`."
    )


class RebuildModel(Model):
    """The last rebuild of a table, or the last dry run of one.

    A dry run is `checking`, then `checked`. A rebuild is `copying` row images, then `replacing` the old landing folder,
    then `done`; or it has `failed`, and the table has gone on in its generation.
    """

    generation: int = Field(description="The generation whose row images are read.")
    phase: RebuildPhase
    """Phase of the rebuild."""

    rows_total: int | None = Field(description="Null until the row images are counted.")
    rows_done: int
    """Number of row images that are read."""

    findings: list[FindingModel]
    """Rows that do not fit the plan."""

    detail: str | None = Field(description="Why it failed, or why the last attempt did.")
    estimated_seconds: Annotated[float, AfterValidator(partial(round, ndigits=1))] | None = Field(
        description="How long a dry run expects the copying to take."
    )
    started_at: datetime
    """Time at which it was asked for."""

    finished_at: datetime | None
    """Time at which it ended; null before that."""


_BUCKET: Final = rf"^[0-9a-f]{{1,{MAX_DIGITS}}}$"
Bucket = Annotated[str, Field(pattern=_BUCKET)]
Checksum = Annotated[int, Field(ge=0, le=2**63 - 1)]


class DigestModel(Model):
    """The rows of a bucket."""

    rows: Annotated[int, Field(ge=0, le=2**53)]
    """Number of rows."""

    checksum: Checksum
    """The sum of their checksums."""


class SourceCheckModel(Model):
    """Counts and checksums of the source's rows: `buckets`, and then `rows` of the buckets that differ."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "columns": ["n_nationkey", "n_name"],
                    "digits": 1,
                    "buckets": {"1": {"rows": 2, "checksum": 5063221941}, "c": {"rows": 1, "checksum": 913642377}},
                }
            ]
        }
    )

    against: Literal["images", "mirror"] = "images"
    """Side to compare with: the row images of everything accepted, or the Delta table of everything mirrored."""

    columns: Annotated[list[str], Field(min_length=1, max_length=1_024)] | None = None
    """The columns that the checksums include. Without it, all whose type has a canonical text."""

    buckets: Annotated[dict[Bucket, DigestModel], Field(max_length=16**MAX_DIGITS)] | None = None
    """Every bucket of the source that has rows, by its name. All names have the same length."""

    digits: Annotated[int, Field(ge=1, le=MAX_DIGITS)] = 3
    """The length of the names of `buckets`, which an empty source does not show."""

    rows: Annotated[dict[Bucket, dict[str, Checksum]], Field(min_length=1, max_length=16**MAX_DIGITS)] | None = None
    """Rows of the source by bucket: key text and checksum of each."""


class BucketDifferenceModel(Model):
    """A bucket whose rows differ."""

    bucket: str
    """The first digits of the MD5 of the key strings."""

    source: DigestModel
    """The rows of the bucket in the source."""

    gateway: DigestModel
    """The rows of the bucket in the gateway."""


class RowDifferencesModel(Model):
    """Key strings of rows that differ, at most 1,000 of each kind."""

    missing: list[str]
    """Rows that only the source has."""

    surplus: list[str]
    """Rows that only the gateway has."""

    changed: list[str]
    """Rows whose values differ."""

    count: int
    """Number of rows that differ, listed or not."""


class SourceCheckResultModel(Model):
    """The comparison of the table with its source."""

    equal: bool
    """True if nothing differs."""

    generation: int
    """The generation of the table that was compared."""

    sequence: int | None
    """The last accepted batch that the comparison includes; null for the Delta table."""

    columns: list[str]
    """The columns that were compared."""

    rows: int
    """Number of rows that the gateway has, or has in the buckets of the request."""

    buckets: list[BucketDifferenceModel]
    """The buckets that differ."""

    keys: RowDifferencesModel | None
    """The rows that differ; null for a request with `buckets`."""

    def to_json(self) -> str:
        """Return the model as JSON, made bucket by bucket.

        One call for 65,536 buckets takes 0.1 s, in which it holds the interpreter lock: the event loop stops, also if
        another thread makes the call.
        """
        others = self.model_dump_json(exclude={"buckets"})
        buckets = ",".join([bucket.model_dump_json() for bucket in self.buckets])
        return f'{others[:-1]},"buckets":[{buckets}]}}'
