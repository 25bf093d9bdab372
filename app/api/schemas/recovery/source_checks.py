"""Comparison of a table with its source."""

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from app.api.schemas.common import Model
from app.domain.source_checks.digests import MAX_DIGITS

_BUCKET: Final = rf"^[0-9a-f]{{1,{MAX_DIGITS}}}$"
Bucket = Annotated[str, Field(pattern=_BUCKET)]
Checksum = Annotated[int, Field(ge=0, le=2**63 - 1)]


class DigestModel(Model):
    """The rows of a bucket."""

    rows: Annotated[int, Field(ge=0, le=2**53)]
    """How many there are."""

    checksum: Checksum
    """The sum of their checksums."""


class SourceCheckModel(Model):
    """What the source says about its rows: `buckets`, and then `rows` of the buckets that differ."""

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
    """What to compare with: the row images of everything accepted, or the Delta table of everything mirrored."""

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
    """The first digits of the MD5 of the key texts."""

    source: DigestModel
    gateway: DigestModel


class RowDifferencesModel(Model):
    """Key texts of rows that differ, at most 1,000 of each kind."""

    missing: list[str]
    """Rows that only the source has."""

    surplus: list[str]
    """Rows that only the gateway has."""

    changed: list[str]
    """Rows whose values differ."""

    count: int
    """How many rows differ, listed or not."""


class SourceCheckResultModel(Model):
    """How the table compares with what the source said."""

    equal: bool
    """Whether nothing differs."""

    generation: int
    """The generation of the table that was compared."""

    sequence: int | None
    """The last accepted batch that the comparison includes; null for the Delta table."""

    columns: list[str]
    """The columns that were compared."""

    rows: int
    """How many rows the gateway has, or has in the buckets of the request."""

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
