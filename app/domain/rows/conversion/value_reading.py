"""How to read values where their column type does not tell: the zone of timestamps, the encoding of bytes."""

from dataclasses import dataclass
from datetime import tzinfo
from functools import lru_cache
from typing import Final

from app.domain.model.table_options import BinaryEncoding, OutOfRange, TableOptions, zone_of

UTC_NAME: Final = "UTC"


@dataclass(frozen=True, slots=True)
class ValueReading:
    """How the values of one column are read."""

    zone: str = UTC_NAME
    """IANA name of the zone of timestamps without an offset. A repeated local time means the earlier one."""
    binary: BinaryEncoding = BinaryEncoding.HEX
    """The encoding of bytes as text."""
    saturates: bool = False
    """True if times outside the years 1 to 9999 land as the first or last one."""

    @property
    def zone_info(self) -> tzinfo:
        """The time zone object of `zone`."""
        return zone_of(self.zone)


PLAIN: Final = ValueReading()


def reading_of(column: str, options: TableOptions) -> ValueReading:
    """Return how the values of a column are read under these options."""
    saturates = options.out_of_range is OutOfRange.SATURATE
    return _reading(options.source_timezone, options.encoding_of(column), saturates)


@lru_cache
def _reading(zone: str, binary: BinaryEncoding, saturates: bool) -> ValueReading:
    return ValueReading(zone, binary, saturates)
