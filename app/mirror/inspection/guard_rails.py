"""Direct Lake's limits per capacity, as Microsoft publishes them: "Direct Lake overview", capacity requirements.

Beyond one of them, queries of a semantic model on the SQL endpoint fall back to DirectQuery, and a model on OneLake
fails. The limits of memory are no guard rails and are not listed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class GuardRails:
    """What one Fabric capacity (SKU) can read by Direct Lake."""

    sku: str
    files: int
    """Parquet files per table."""
    row_groups: int
    """Row groups per table."""
    rows: int
    """Rows per table."""
    model_bytes: int | None
    """Bytes on disk of all tables of a semantic model; None for no limit."""


_MILLION: Final = 1_000_000
_GB: Final = 1 << 30

_IN_ORDER: Final = (
    GuardRails("F2", 1_000, 1_000, 300 * _MILLION, 10 * _GB),
    GuardRails("F4", 1_000, 1_000, 300 * _MILLION, 10 * _GB),
    GuardRails("F8", 1_000, 1_000, 300 * _MILLION, 10 * _GB),
    GuardRails("F16", 1_000, 1_000, 300 * _MILLION, 20 * _GB),
    GuardRails("F32", 1_000, 1_000, 300 * _MILLION, 40 * _GB),
    GuardRails("F64", 5_000, 5_000, 1_500 * _MILLION, None),
    GuardRails("F128", 5_000, 5_000, 3_000 * _MILLION, None),
    GuardRails("F256", 5_000, 5_000, 6_000 * _MILLION, None),
    GuardRails("F512", 10_000, 10_000, 12_000 * _MILLION, None),
    GuardRails("F1024", 10_000, 10_000, 24_000 * _MILLION, None),
    GuardRails("F2048", 10_000, 10_000, 24_000 * _MILLION, None),
)

GUARD_RAILS: Final[Mapping[str, GuardRails]] = {one.sku: one for one in _IN_ORDER}
"""The guard rails by SKU, the smallest first. FT1 and P1 are F64, P2 is F128, and so on."""


def smallest_sku(files: int, row_groups: int, rows: int, size: int) -> str | None:
    """Return the smallest SKU whose guard rails a table keeps, None if there is none."""
    for one in _IN_ORDER:
        fits = files <= one.files and row_groups <= one.row_groups and rows <= one.rows
        if fits and (one.model_bytes is None or size <= one.model_bytes):
            return one.sku
    return None
