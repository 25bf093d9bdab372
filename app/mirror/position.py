"""How far a Delta table has applied its landing files, in the table's own log.

Delta's application transactions are part of a commit: the position moves with the rows or not at all, even if a kill
the process. A second commit of the same file conflicts with the first one.
"""

from dataclasses import dataclass
from typing import Final

from deltalake import DeltaTable, Transaction

FILES: Final = "mirrorgate"
GENERATION: Final = "mirrorgate.generation"
FIRST_FILE: Final = "mirrorgate.first_file"
LAST_FILE: Final = "mirrorgate.last_file"


@dataclass(frozen=True, slots=True)
class Position:
    """The generation of a table and its last applied file, with the fingerprints of its first and last file."""

    generation: int
    file_number: int
    first_file: int = 0
    """0: unknown."""
    last_file: int = 0

    def transactions(self) -> list[Transaction]:
        """Return the application transactions of a commit that reaches this position."""
        return [
            Transaction(FILES, self.file_number),
            Transaction(GENERATION, self.generation),
            Transaction(FIRST_FILE, self.first_file),
            Transaction(LAST_FILE, self.last_file),
        ]


def read_position(table: DeltaTable) -> Position | None:
    """Return the position of a table; None for a table that the mirror did not write."""
    file_number, generation = table.transaction_version(FILES), table.transaction_version(GENERATION)
    if file_number is None or generation is None:
        return None
    first_file, last_file = table.transaction_version(FIRST_FILE), table.transaction_version(LAST_FILE)
    return Position(generation, file_number, first_file or 0, last_file or 0)
