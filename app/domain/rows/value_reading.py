"""How values are to be read where their declared type does not tell: the zone of timestamps, the form of bytes."""

from dataclasses import dataclass
from datetime import tzinfo
from functools import lru_cache
from typing import Final

from app.domain.model.table_options import BinaryEncoding, OutOfRange, TableOptions, zone_of

UTC_NAME: Final = "UTC"


@dataclass(frozen=True, slots=True)
class ValueReading:
    """`zone` is the IANA name for timestamps without an offset; of two moments with one local time it is the
    earlier. `binary` is how text stands for bytes; `saturates`, whether what lies beyond the calendar lands as its
    first or last moment."""

    zone: str = UTC_NAME
    binary: BinaryEncoding = BinaryEncoding.HEX
    saturates: bool = False

    @property
    def zone_info(self) -> tzinfo:
        return zone_of(self.zone)


PLAIN: Final = ValueReading()


def reading_of(column: str, options: TableOptions) -> ValueReading:
    """How the values of a column are read under these options."""
    saturates = options.out_of_range is OutOfRange.SATURATE
    return _reading(options.source_timezone, options.encoding_of(column), saturates)


@lru_cache
def _reading(zone: str, binary: BinaryEncoding, saturates: bool) -> ValueReading:
    return ValueReading(zone, binary, saturates)
