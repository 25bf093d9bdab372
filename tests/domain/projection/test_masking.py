"""Masked values: no release changes a hash, because rows that landed before have it too."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from app.domain.access.mask_secret import SALT_BYTES, MaskSecret
from app.domain.model.names import TableName
from app.domain.model.projection import Mask, MaskMethod
from app.domain.model.table import Generation, Table, TableId, TableState
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import SchemaVersion
from app.domain.rows.row_rules import Masking
from app.errors import Code, TemporarilyUnavailable
from tests.support.hashes import hashed
from tests.support.samples.schemas import schema_of

NAMES = ["id", "name", "note", "gone"]
MASKS = {"name": Mask(MaskMethod.HASH), "note": Mask(MaskMethod.TRUNCATE, 2), "gone": Mask(MaskMethod.NULL)}
SECRET = MaskSecret(b"secret")
TABLE = Table(
    TableId(7),
    TableName.parse("sales.people"),
    Generation(1),
    TableState.ACTIVE,
    SchemaVersion(1),
    schema_of(dict.fromkeys(NAMES, "string")),
    TableOptions(masks=MASKS),
    mask_fingerprint=SECRET.fingerprint(bytes(SALT_BYTES)),
)
MASKING = Masking(TABLE, SECRET)
ADA = hashed(b"secret", "table:7", "Adä")
BATCH = pa.RecordBatch.from_pydict(
    {
        "id": pa.array([1, 2, 3]),
        "name": pa.array(["Adä", None, "Adä"]),
        "note": pa.array(["äöü", None, "x"]),
        "gone": pa.array([1.5, None, 2.5]),
        "marker": pa.array([0, 1, 2], pa.int32()),
    }
)


def test_hashes_are_keyed_null_stays_null_and_other_columns_stay_as_they_are() -> None:
    masked = MASKING.batch(BATCH, NAMES)
    assert masked.schema.equals(BATCH.schema)
    assert masked.to_pydict() == {
        "id": [1, 2, 3],
        "name": [ADA, None, ADA],
        "note": ["äö", None, "x"],
        "gone": [None, None, None],
        "marker": [0, 1, 2],
    }
    assert ADA == "cd50d7427fda963fcc7b01a171c328b97da9933a01655eb1d961168942736001"


def name_hashed(group: str | None = None, secret: MaskSecret = SECRET, **of_table: Any) -> str:
    options = TableOptions(masks={"name": Mask(MaskMethod.HASH, group=group)})
    fingerprint = secret.fingerprint(bytes(SALT_BYTES))
    table = replace(TABLE, options=options, mask_fingerprint=fingerprint, **of_table)
    first: str = Masking(table, secret).batch(BATCH, NAMES).column("name")[0].as_py()
    return first


def test_a_hash_is_of_one_table_or_one_group_under_one_secret() -> None:
    other = {"table_id": TableId(8), "name": TableName.parse("sales.people")}
    assert name_hashed() == name_hashed(name=TableName.parse("renamed"), generation=Generation(2)) == ADA
    assert name_hashed("people") == name_hashed("people", **other) == hashed(b"secret", "group:people", "Adä")
    distinct = [
        name_hashed(),
        name_hashed(**other),
        name_hashed("people"),
        name_hashed("7"),
        name_hashed(secret=MaskSecret(b"another secret")),
    ]
    assert len(set(distinct)) == len(distinct)


def test_rows_for_images_have_the_masked_values_in_their_places() -> None:
    masked = MASKING.arrays(BATCH.columns, NAMES)
    rows = [(number, "Adä", "äöü", 1.5) for number in (1, 2, 3)]
    assert [*MASKING.rows(rows, masked, NAMES)] == [(1, ADA, "äö", None), (2, None, None, None), (3, ADA, "x", None)]
    assert [*Masking(replace(TABLE, options=TableOptions())).rows(rows, BATCH.columns, NAMES)] == rows


@pytest.mark.parametrize(
    ("secret", "code", "detail"),
    [
        (None, Code.MASK_SECRET_MISSING, "table sales.people has a hashed column, and this process has no secret"),
        (
            MaskSecret(b"another secret"),
            Code.MASK_SECRET_DIFFERS,
            "table sales.people is hashed under another secret than that of this process",
        ),
    ],
)
def test_a_hash_needs_the_secret_of_the_table(secret: MaskSecret | None, code: Code, detail: str) -> None:
    masking = replace(MASKING, secret=secret)
    with pytest.raises(TemporarilyUnavailable) as error:
        masking.batch(BATCH, NAMES)
    assert (error.value.code, error.value.detail) == (code, detail)
    without = TableOptions(masks={name: mask for name, mask in MASKS.items() if name != "name"})
    unhashed = replace(masking, table=replace(TABLE, options=without)).batch(BATCH, NAMES)
    assert unhashed.column("name").to_pylist() == ["Adä", None, "Adä"]


def test_a_table_without_a_fingerprint_is_hashed_under_no_secret() -> None:
    with pytest.raises(TemporarilyUnavailable) as error:
        replace(MASKING, table=replace(TABLE, mask_fingerprint=None)).batch(BATCH, NAMES)
    assert error.value.code is Code.MASK_SECRET_DIFFERS
