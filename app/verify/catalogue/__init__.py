"""What each code of `mirrorgate verify` means and what to do about it: the only source of docs/verify.md's tables.

Each module holds the entries of one subject. Invariant: every code has exactly one entry; the import fails otherwise.
"""

from collections.abc import Mapping
from typing import Final

from app.verify.catalogue.columns import COLUMNS
from app.verify.catalogue.comparison import COMPARISON
from app.verify.catalogue.entry import Entry, Severity
from app.verify.catalogue.files import FILES
from app.verify.catalogue.folders import FOLDERS
from app.verify.catalogue.metadata import METADATA
from app.verify.catalogue.rows import ROWS
from app.verify.catalogue.zone import ZONE
from app.verify.codes import FindingCode

__all__ = ["CATALOGUE", "SUBJECTS", "Entry", "Severity"]

SUBJECTS: Final[Mapping[str, Mapping[FindingCode, Entry]]] = {
    "The zone": ZONE,
    "Table folders and file names": FOLDERS,
    "Metadata": METADATA,
    "Data files": FILES,
    "Columns": COLUMNS,
    "Rows and keys": ROWS,
    "Comparison": COMPARISON,
}
"""The entries by subject, in the order of docs/verify.md."""


def _merged() -> dict[FindingCode, Entry]:
    merged = {code: entry for entries in SUBJECTS.values() for code, entry in entries.items()}
    if missing := [code for code in FindingCode if code not in merged]:
        raise LookupError(f"codes without an entry in the catalogue: {', '.join(missing)}")
    if len(merged) != sum(map(len, SUBJECTS.values())):
        raise LookupError("a code has two entries in the catalogue")
    return merged


CATALOGUE: Final[Mapping[FindingCode, Entry]] = _merged()
"""The one entry of every code."""
