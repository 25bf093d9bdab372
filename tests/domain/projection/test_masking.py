"""Masked values: no release changes a hash, because rows that landed before have it too."""

import hashlib
import hmac
from dataclasses import replace

import pyarrow as pa
import pytest

from app.domain.access.mask_secret import SALT_BYTES, MaskSecret
from app.domain.model.projection.transforms import Mask, MaskMethod
from app.domain.rows.projection.masking import Masking
from app.errors import Code, TemporarilyUnavailable

NAMES = ["id", "name", "note", "gone"]
MASKS = {"name": Mask(MaskMethod.HASH), "note": Mask(MaskMethod.TRUNCATE, 2), "gone": Mask(MaskMethod.NULL)}
SECRET = MaskSecret(b"secret")
MASKING = Masking(MASKS, SECRET, SECRET.fingerprint(bytes(SALT_BYTES)), "sales.people")
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
    another = MaskSecret(b"another secret")
    other = Masking(MASKS, another, another.fingerprint(bytes(SALT_BYTES))).batch(BATCH, NAMES)
    assert other.column("name")[0].as_py() != ADA


def test_rows_for_images_have_the_masked_values_in_their_places() -> None:
    masked = MASKING.arrays(BATCH.columns, NAMES)
    rows = [(number, "Adä", "äöü", 1.5) for number in (1, 2, 3)]
    assert [*MASKING.rows(rows, masked, NAMES)] == [(1, ADA, "äö", None), (2, None, None, None), (3, ADA, "x", None)]
    assert [*Masking({}).rows(rows, BATCH.columns, NAMES)] == rows


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
    without = {name: mask for name, mask in MASKS.items() if name != "name"}
    assert replace(masking, masks=without).batch(BATCH, NAMES).column("name").to_pylist() == ["Adä", None, "Adä"]


def test_a_table_without_a_fingerprint_is_hashed_under_no_secret() -> None:
    with pytest.raises(TemporarilyUnavailable) as error:
        replace(MASKING, fingerprint=None).batch(BATCH, NAMES)
    assert error.value.code is Code.MASK_SECRET_DIFFERS
