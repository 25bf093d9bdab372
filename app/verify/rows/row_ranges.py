"""Row numbers for people: `rows 3-5, 9 and more`."""

from collections.abc import Sequence
from typing import Final

RANGES_PER_FINDING: Final = 3


def describe_rows(ranges: Sequence[tuple[int, int]], range_count: int) -> str:
    """Return the first ranges of row numbers as text."""
    texts = [f"{first:,}" if first == last else f"{first:,}-{last:,}" for first, last in ranges]
    noun = "row" if range_count == 1 and ranges[0][0] == ranges[0][1] else "rows"
    more = " and more" if range_count > len(ranges) else ""
    return f"{noun} {', '.join(texts)}{more}"
