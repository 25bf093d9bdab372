"""Masked values: no release changes a hash, because rows that landed before have it too."""

import hashlib
import hmac

import pyarrow as pa
import pytest

from app.domain.model.projection.transforms import Mask, MaskMethod
from app.domain.rows.projection.masking import Masking
from app.errors import Code, TemporarilyUnavailable

NAMES = ["id", "name", "note", "gone"]
MASKS = {"name": Mask(MaskMethod.HASH), "note": Mask(MaskMethod.TRUNCATE, 2), "gone": Mask(MaskMethod.NULL)}
MASKING = Masking(MASKS, b"secret")
ADA = hmac.new(b"secret", "Adä".encode(), hashlib.sha256).hexdigest()
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
    other = Masking(MASKS, b"another secret").batch(BATCH, NAMES)
    assert other.column("name")[0].as_py() != ADA


def test_rows_for_images_have_the_masked_values_in_their_places() -> None:
    masked = MASKING.arrays(BATCH.columns, NAMES)
    rows = [(number, "Adä", "äöü", 1.5) for number in (1, 2, 3)]
    assert [*MASKING.rows(rows, masked, NAMES)] == [(1, ADA, "äö", None), (2, None, None, None), (3, ADA, "x", None)]
    assert [*Masking({}, None).rows(rows, BATCH.columns, NAMES)] == rows


def test_a_hash_needs_a_secret() -> None:
    with pytest.raises(TemporarilyUnavailable) as error:
        Masking(MASKS, None).batch(BATCH, NAMES)
    assert (error.value.code, error.value.detail) == (
        Code.MASK_SECRET_MISSING,
        "a column is masked by a hash, and no secret is set",
    )
    without = {name: mask for name, mask in MASKS.items() if name != "name"}
    assert Masking(without, None).batch(BATCH, NAMES).column("name").to_pylist() == ["Adä", None, "Adä"]
