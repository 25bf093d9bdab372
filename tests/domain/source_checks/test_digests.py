"""Buckets and rows: whatever differs between the source and the gateway is found, and nothing else."""

from hashlib import md5
from string import hexdigits

from hypothesis import given
from hypothesis import strategies as st

from app.domain.source_checks import (
    MAX_LISTED,
    NO_ROWS,
    BucketDifference,
    BucketDigests,
    BucketRows,
    CanonicalRows,
    Digest,
    bucket_of,
    checksum_of,
)

ROWS = st.dictionaries(st.text(max_size=8), st.text(max_size=12), max_size=40)


def digests(rows: dict[str, str], digits: int) -> BucketDigests:
    found = BucketDigests(digits)
    found.add(CanonicalRows([*rows], [*rows.values()]))
    return found


def as_source(rows: dict[str, str], digits: int) -> dict[str, Digest]:
    return {name: Digest(*sums) for name, sums in digests(rows, digits).found.items()}


@given(source=ROWS, gateway=ROWS, digits=st.integers(1, 4))
def test_buckets_differ_exactly_if_rows_do(source: dict[str, str], gateway: dict[str, str], digits: int) -> None:
    differences = digests(gateway, digits).differences(as_source(source, digits))
    assert bool(differences) == (source != gateway)


@given(source=ROWS, gateway=ROWS, digits=st.integers(1, 2))
def test_the_rows_of_the_differing_buckets_name_every_difference(
    source: dict[str, str], gateway: dict[str, str], digits: int
) -> None:
    buckets = {one.bucket for one in digests(gateway, digits).differences(as_source(source, digits))}
    theirs = {key: checksum_of(row) for key, row in source.items() if bucket_of(key, digits) in buckets}
    ours = BucketRows(buckets, theirs.items())
    ours.add(CanonicalRows([*gateway], [*gateway.values()]))
    found = ours.differences()
    assert found.missing == sorted(source.keys() - gateway.keys())
    assert found.surplus == sorted(gateway.keys() - source.keys())
    assert found.changed == sorted(key for key in source.keys() & gateway.keys() if source[key] != gateway[key])
    assert found.rows == len(found.missing) + len(found.surplus) + len(found.changed)


def test_a_list_of_rows_ends_and_the_count_does_not() -> None:
    ours = BucketRows({*hexdigits.lower()}, ())
    keys = [str(key) for key in range(4_500, 0, -1)]
    ours.add(CanonicalRows(keys, ["x"] * len(keys)))
    found = ours.differences()
    assert found.surplus == sorted(keys)[:MAX_LISTED]
    assert found.rows == ours.rows == len(keys)


@given(rows=ROWS, digits=st.integers(1, 4))
def test_a_bucket_has_the_count_and_the_sum_that_the_query_of_the_source_gives(
    rows: dict[str, str], digits: int
) -> None:
    expected: dict[str, Digest] = {}
    for key, row in rows.items():
        bucket = md5(key.encode()).hexdigest()[:digits]
        count, total = expected.get(bucket, NO_ROWS)
        expected[bucket] = Digest(count + 1, total + int(md5(row.encode()).hexdigest()[:8], 16))
    found = digests(rows, digits)
    assert {bucket: Digest(*sums) for bucket, sums in found.found.items()} == expected
    assert found.rows == len(rows)
    assert found.differences({}) == [BucketDifference(name, NO_ROWS, expected[name]) for name in sorted(expected)]
    assert BucketDigests(digits).differences(expected) == [
        BucketDifference(name, expected[name], NO_ROWS) for name in sorted(expected)
    ]
