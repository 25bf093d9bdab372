"""Names and identities of landing files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.model.landing_file import FileIdentity, content_digest, file_name, parse_file_name
from app.domain.model.table import BatchSequence, FileNumber, Generation

NUMBERS = st.integers(1, 2**63 - 1)


@pytest.mark.parametrize(
    ("number", "name"),
    [(1, "00000000000000000001.parquet"), (2**63 - 1, "09223372036854775807.parquet")],
)
def test_a_file_is_named_by_twenty_digits(number: int, name: str) -> None:
    assert file_name(FileNumber(number)) == name
    assert parse_file_name(name) == number


@pytest.mark.parametrize(
    "name",
    [
        "",
        "1.parquet",
        "000000000000000000001.parquet",
        "00000000000000000001.PARQUET",
        "00000000000000000001.parquet ",
        "00000000000000000001.parquet\n",
        "_00000000000000000001.parquet",
        "0000000000000000000a.parquet",
        "0000000000000000000١.parquet",
        "00000000000000000001-abc.parquet",
    ],
)
def test_any_other_name_is_no_landing_file(name: str) -> None:
    assert parse_file_name(name) is None


@given(table=st.text(min_size=1), numbers=st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS), digest=st.binary())
def test_a_footer_gives_back_the_identity_that_was_written(
    table: str, numbers: tuple[int, int, int, int, int], digest: bytes
) -> None:
    generation, number, first, last, rows = numbers
    identity = FileIdentity(
        table, Generation(generation), FileNumber(number), BatchSequence(first), BatchSequence(last), rows, digest.hex()
    )
    footer = {key.encode(): value.encode("utf-8", "replace") for key, value in identity.footer().items()}
    assert FileIdentity.from_footer(footer | {b"writer": b"\xff"}) == identity


IDENTITY = FileIdentity("t", Generation(1), FileNumber(2), BatchSequence(3), BatchSequence(4), 5, "00")
FOOTER = {key.encode(): value.encode() for key, value in IDENTITY.footer().items()}


@pytest.mark.parametrize("missing", FOOTER)
def test_a_footer_that_lacks_a_key_is_not_ours(missing: bytes) -> None:
    assert FileIdentity.from_footer({key: value for key, value in FOOTER.items() if key != missing}) is None


def test_a_footer_with_a_number_that_is_none_is_not_ours() -> None:
    assert FileIdentity.from_footer(FOOTER | {b"mirrorgate.rows": b"many"}) is None
    assert FileIdentity.from_footer({}) is None


def test_the_content_digest_depends_on_the_blocks_and_on_their_order() -> None:
    one, two = b"1" * 32, b"2" * 32
    assert content_digest([one, two]) == content_digest(iter([one, two]))
    assert len({content_digest(blocks) for blocks in ([one, two], [two, one], [one], [two])}) == 4
