"""The secret of hashed columns and its fingerprints."""

import pytest

from app.domain.access.mask_secret import (
    FINGERPRINT_BYTES,
    SALT_BYTES,
    HashedTables,
    MaskSecret,
    check_registered,
)
from app.domain.model.table import Table
from app.domain.model.table_options import TableOptions
from mirrorgate.errors import Code, TemporarilyUnavailable
from tests.support.samples.schemas import active_table, schema_of

SALT, OTHER_SALT = bytes(SALT_BYTES), bytes([1]) * SALT_BYTES
FORMER, PRESENT = MaskSecret(b"the former secret"), MaskSecret(b"the present secret")
OF_FORMER, OF_PRESENT = FORMER.fingerprint(SALT), PRESENT.fingerprint(OTHER_SALT)
TABLES = HashedTables({"one": OF_PRESENT, "two": OF_PRESENT})
SCHEMA = schema_of({"id": "int64", "mail": "string"}, ["id"])
HASHED = active_table(SCHEMA, TableOptions.parse({"masks": {"mail": {"method": "hash"}}}), mask_fingerprint=OF_FORMER)
PLAIN, WITHOUT_MASKS = active_table(SCHEMA), active_table(SCHEMA, mask_fingerprint=OF_FORMER)


def test_a_fingerprint_is_of_one_secret_and_does_not_contain_it() -> None:
    assert len(OF_FORMER) == FINGERPRINT_BYTES
    assert (FORMER.made(OF_FORMER), FORMER.made(FORMER.fingerprint(OTHER_SALT))) == (True, True)
    assert (PRESENT.made(OF_FORMER), PRESENT.made(None)) == (False, False)
    assert FORMER.value not in OF_FORMER
    assert "secret" not in repr(FORMER).removeprefix("<app.domain.access.mask_secret.MaskSecret")
    assert OF_FORMER[SALT_BYTES:] != FORMER.fingerprint(OTHER_SALT)[SALT_BYTES:]


def test_no_release_changes_a_fingerprint() -> None:
    assert MaskSecret(b"secret").fingerprint(SALT).hex() == (
        "0000000000000000000000000000000068b26bdf5ddae12e2d28cfac91448fc2619c9d177df28454d429c23efe93e3f4"
    )


def test_a_setting_that_is_not_given_is_no_secret() -> None:
    assert MaskSecret.given(None) is None
    assert MaskSecret.given(b"x").value == b"x"


@pytest.mark.parametrize(
    ("secret", "trouble"),
    [
        (PRESENT, None),
        (None, "2 tables have hashed columns, and MIRRORGATE_MASK_SECRET is not set"),
        (
            MaskSecret(b"a wrong secret"),
            "2 tables have columns that are hashed under another MIRRORGATE_MASK_SECRET than that of this process",
        ),
    ],
)
def test_only_a_process_with_the_secret_of_the_tables_serves_them(
    secret: MaskSecret | None, trouble: str | None
) -> None:
    assert TABLES.trouble(secret) == trouble


def test_without_hashed_columns_no_secret_is_wrong() -> None:
    assert HashedTables({}).trouble(None) is None
    assert HashedTables({}).trouble(FORMER) is None
    trouble = HashedTables({"t": OF_PRESENT}).trouble(FORMER)
    assert trouble is not None
    assert trouble.startswith("1 table has columns")


@pytest.mark.parametrize("before", [None, PLAIN, WITHOUT_MASKS])
@pytest.mark.parametrize("secret", [PRESENT, None])
def test_hashes_are_declared_only_by_a_process_that_has_the_secret_of_the_table(
    before: Table | None, secret: MaskSecret | None
) -> None:
    check_registered(before, HASHED, FORMER)
    with pytest.raises(TemporarilyUnavailable, match=Code.MASK_SECRET_DIFFERS):
        check_registered(before, HASHED, secret)


@pytest.mark.parametrize(("before", "after"), [(HASHED, HASHED), (HASHED, WITHOUT_MASKS), (None, PLAIN)])
def test_what_declares_no_hash_needs_no_secret(before: Table | None, after: Table) -> None:
    check_registered(before, after, PRESENT)
    check_registered(before, after, None)
