"""The checks of tables, in the order in which they run; those of the zone are in `folders` too.

Each check is a function that yields findings. It sees a table's listing and metadata (FOLDER_CHECKS), one file
(FILE_CHECKS), or all readable files with their columns (CONTENT_CHECKS).
"""

from collections.abc import Callable, Iterator
from typing import Final

from app.landing.zone import LandingZone
from mirrorgate_zone.verify.checks.files import (
    bare_files,
    column_layouts,
    compression,
    identity,
    key_columns,
    large_cells,
    pace,
    row_groups,
    schema_history,
    tiny_files,
)
from mirrorgate_zone.verify.checks.folders import (
    detection,
    file_names,
    folders,
    hidden_files,
    metadata_content,
    metadata_presence,
    missing_data,
    missing_metadata,
    numbers,
    special_entries,
    text_description,
)
from mirrorgate_zone.verify.codes import Finding
from mirrorgate_zone.verify.file_reading import CheckedFile, TableView

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
FILE_CHECKS: Final[tuple[FileCheck, ...]] = (compression, identity, row_groups, large_cells)
CONTENT_CHECKS: Final[tuple[TableCheck, ...]] = (
    missing_metadata,
    column_layouts,
    key_columns,
    schema_history,
    bare_files,
    pace,
    tiny_files,
)
