"""The checks of tables, in the order in which they run; those of the zone are in `zone_root`.

Each check is a function that yields findings. It sees a table's listing and metadata (FOLDER_CHECKS), one file
(FILE_CHECKS), or all readable files with their columns (CONTENT_CHECKS).
"""

from collections.abc import Callable, Iterator
from typing import Final

from app.landing.zone import LandingZone
from app.verify.checked_file import CheckedFile
from app.verify.checks.columns import column_layouts, key_columns
from app.verify.checks.file_content import compression, large_cells, row_groups
from app.verify.checks.file_names import file_names, numbers
from app.verify.checks.folder_entries import folders, hidden_files, missing_data, special_entries
from app.verify.checks.metadata import detection, metadata_content, metadata_presence, text_description
from app.verify.checks.publishing import bare_files, pace, tiny_files
from app.verify.checks.schema_history import schema_history
from app.verify.finding import Finding
from app.verify.table_view import TableView

TableCheck = Callable[[TableView], Iterator[Finding]]
FileCheck = Callable[[LandingZone, TableView, CheckedFile], Iterator[Finding]]

FOLDER_CHECKS: Final[tuple[TableCheck, ...]] = (
    metadata_presence,
    metadata_content,
    detection,
    text_description,
    special_entries,
    folders,
    file_names,
    numbers,
    missing_data,
    hidden_files,
)
FILE_CHECKS: Final[tuple[FileCheck, ...]] = (compression, row_groups, large_cells)
CONTENT_CHECKS: Final[tuple[TableCheck, ...]] = (
    column_layouts,
    key_columns,
    schema_history,
    bare_files,
    pace,
    tiny_files,
)
