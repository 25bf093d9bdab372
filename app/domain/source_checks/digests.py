"""Counts and checksums of rows in buckets, and what differs between the source and the gateway.

A row's bucket is the first hexadecimal digits of the MD5 of its key text: no order of keys is needed, which databases
sort differently. Its checksum is the first 32 bits of the MD5 of its row text, and that of a bucket their sum. MD5 is
what every database has; it protects against chance, not against an attacker who writes the rows.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import md5
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from app.domain.source_checks.canonical import CanonicalRows

MAX_DIGITS: Final = 4
"""Digits of a bucket: 65,536 buckets."""

MAX_LISTED: Final = 1_000
"""Differing rows that are listed by kind; beyond it they are only counted."""

MAX_ROWS: Final = 100_000
"""Rows of the source in one request."""

_CHECKSUM_DIGITS: Final = 8
_BUCKET: Final = re.compile(rf"[0-9a-f]{{1,{MAX_DIGITS}}}")


class Digest(NamedTuple):
    """The number of rows of a bucket, and the sum of their checksums."""

    rows: int
    checksum: int


NO_ROWS: Final = Digest(0, 0)


class BucketDifference(NamedTuple):
    """A bucket whose rows differ."""

    bucket: str
    source: Digest
    gateway: Digest


@dataclass
class BucketDigests:
    """Adds rows up by bucket."""

    digits: int
    found: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))

    def add(self, rows: "CanonicalRows") -> None:
        """Add rows."""
        for key, row in zip(*rows, strict=True):
            bucket = self.found[bucket_of(key, self.digits)]
            bucket[0] += 1
            bucket[1] += checksum_of(row)

    @property
    def rows(self) -> int:
        """The number of rows that were added."""
        return sum(rows for rows, _ in self.found.values())

    def differences(self, source: Mapping[str, Digest]) -> list[BucketDifference]:
        """Return the buckets in which the source has other rows, in the order of their names."""
        own = {bucket: Digest(*sums) for bucket, sums in self.found.items()}
        pairs = ((name, source.get(name, NO_ROWS), own.get(name, NO_ROWS)) for name in sorted({*source, *own}))
        return [BucketDifference(*pair) for pair in pairs if pair[1] != pair[2]]


class RowDifferences(NamedTuple):
    """Key texts of rows that differ, sorted; each list ends at MAX_LISTED. `rows` counts all of them."""

    missing: list[str]
    """Rows that only the source has."""
    surplus: list[str]
    """Rows that only the gateway has."""
    changed: list[str]
    """Rows that both have with different values."""
    rows: int


class BucketRows:
    """Compares the rows in some buckets, which have names of the same length, with those of the source.

    Memory grows with the rows of the source, which a request limits, and not with those of the table.
    """

    def __init__(self, buckets: Collection[str], source: Iterable[tuple[str, int]]) -> None:
        """Begin with the key texts and checksums of the source's rows in these buckets."""
        self.rows = 0
        """The rows of the gateway in the buckets."""
        self._buckets = buckets
        self._digits = len(next(iter(buckets), ""))
        self._unseen = dict(source)
        self._surplus, self._changed = _FirstKeys(), _FirstKeys()

    def add(self, rows: "CanonicalRows") -> None:
        """Add those of these rows that are in the buckets; each key at most once."""
        for key, row in zip(*rows, strict=True):
            if bucket_of(key, self._digits) not in self._buckets:
                continue
            self.rows += 1
            theirs = self._unseen.pop(key, None)
            if theirs is None:
                self._surplus.add(key)
            elif theirs != checksum_of(row):
                self._changed.add(key)

    def differences(self) -> RowDifferences:
        """Return the rows that differ from those of the source."""
        missing = sorted(self._unseen)
        total = len(missing) + self._surplus.count + self._changed.count
        return RowDifferences(missing[:MAX_LISTED], self._surplus.listed(), self._changed.listed(), total)


def is_bucket(name: str, digits: int) -> bool:
    """Tell whether a text is the name of a bucket with so many digits."""
    return len(name) == digits and _BUCKET.fullmatch(name) is not None


class _FirstKeys:
    """Counts keys, and keeps the first MAX_LISTED of them in their order."""

    def __init__(self) -> None:
        self.count = 0
        self._kept: list[str] = []

    def add(self, key: str) -> None:
        self.count += 1
        self._kept.append(key)
        if len(self._kept) > 2 * MAX_LISTED:
            self._kept = self.listed()

    def listed(self) -> list[str]:
        return sorted(self._kept)[:MAX_LISTED]


def bucket_of(key: str, digits: int) -> str:
    """Return the bucket of a row with this key text."""
    return md5(key.encode(), usedforsecurity=False).hexdigest()[:digits]


def checksum_of(row: str) -> int:
    """Return the checksum of a row text."""
    return int(md5(row.encode(), usedforsecurity=False).hexdigest()[:_CHECKSUM_DIGITS], 16)
