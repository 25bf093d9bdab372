"""What `mirrorgate verify` reports: findings, and the closed set of their codes.

The codes are the source of docs/reference/verify-findings.md. Scripts rely on them: a code is never renamed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto, unique
from typing import Any, Final, Self

from app.published.table_metadata import UnreadableFile, UnreadableMetadata
from mirrorgate.errors import Misconfigured
from mirrorgate.errors.codes import by_subject

_REPLACE: Final = (
    "Put a valid file with the same rows under the same name, complete before it is visible: write it under a hidden "
    "name, check it, and rename it."
)

_LOST: Final = (
    "Look for what the publisher lost, sent twice or reordered before these rows: a file that replaced another one, a "
    "restart from an old position, a repeated upload. Reload the table if rows are missing."
)

_TRACE: Final = (
    "The file that is named changed the key last: look at what it and the files around it did with it. If mirroring "
    "has not applied all files yet, wait and compare again. If another program wrote to or restored a table of "
    "Mirrorgate's mirror, stop the mirror, delete the table's folder there, and start the mirror."
)


class Severity(StrEnum):
    """The severity of a finding."""

    ERROR = "error"
    """Fabric stops the table, or its rows are wrong."""
    WARNING = "warning"
    """Findings that can go wrong, or work only by chance."""
    ADVICE = "advice"
    """Findings that work, and could be cheaper, faster or safer."""

    def code(self, meaning: str, remedy: str) -> tuple[Any, "Severity", str, str]:
        """Declare a code of this severity, whose value is its name in small letters."""
        return auto(), self, meaning, remedy


@unique
class FindingCode(StrEnum):
    """The code of a finding: its severity, meaning and remedy."""

    _value_: str
    severity: Severity
    meaning: str
    remedy: str

    def __new__(cls, value: str, *declared: Any) -> Self:
        """Return the member that `Severity.code` declares."""
        code = str.__new__(cls, value)
        code._value_ = value
        code.severity, code.meaning, code.remedy = declared
        return code

    # The zone: findings about the zone as a whole, and about reading it.
    PARTNER_EVENTS_MISSING = Severity.ADVICE.code(
        "The zone has no `_partnerEvents.json`, which Microsoft strongly recommends.",
        "Write it once at the root of the zone, with `partnerName` and `sourceInfo.sourceType`.",
    )
    PARTNER_EVENTS_DAMAGED = Severity.WARNING.code(
        "`_partnerEvents.json` is not a JSON object with the strings `partnerName` and `sourceInfo.sourceType`.",
        "Replace it with a valid file: one for the whole zone, at its root.",
    )
    FILE_OUTSIDE_TABLE = Severity.WARNING.code(
        "A file lies outside of any table folder, where mirroring does not read it.",
        "Move data into a folder of its table, and delete everything else. Names that start with `_` are ignored.",
    )
    TOO_MANY_TABLES = Severity.ERROR.code(
        "The zone has more than 1,000 tables, the limit of a mirrored database.",
        "Divide the tables between several mirrored databases.",
    )
    TABLE_NAMES_DIFFER_IN_CASE = Severity.WARNING.code(
        "Two table folders have names that differ in letter case only, or only by Fabric's default schema `dbo`.",
        "Give each table a name that differs from all others without regard to letter case and `dbo`.",
    )
    EMPTY_SCHEMA_FOLDER = Severity.ADVICE.code(
        "A `<name>.schema` folder has no table folder.",
        "Delete the folder, or create the tables of the schema in it.",
    )
    OLD_HIDDEN_FILES = Severity.ADVICE.code(
        "Hidden files (in `_scratchPad`, or with a name like `_temp…`) are older than a week. Nothing reads them, and "
        "they cost storage.",
        "Make sure that no publisher writes them any more, and delete them.",
    )
    CANNOT_READ = Severity.ERROR.code(
        "The store or the file system did not let the command read this.",
        "Check the rights of the account that runs the command and whether the store is reachable, and run it again.",
    )
    NOT_CHECKED = Severity.ADVICE.code(
        "This was not checked: it moved while it was read, or is too large.",
        "Run the command again if it moved. Publish large tables as Parquet.",
    )
    CHECK_FAILED = Severity.ERROR.code(
        "A check ended early because of an error in it. The other checks of the zone are complete.",
        "Report it with the detail, and with the output of `mirrorgate --version`.",
    )

    # Table folders and file names: the names, number and pace of files, and what else is in a folder.
    NUMBER_GAP = Severity.ERROR.code(
        "A file number is missing between two others. Mirroring waits for it, and reads no later file.",
        "Publish the missing file under its number. If its content is lost, delete the folder, wait until the table is "
        "gone, and create it again with a full load.",
    )
    FIRST_FILE_MISSING = Severity.WARNING.code(
        "The files do not begin at number 1, and there is no folder of consumed files that would explain it.",
        "Number the files of a table from 1. No action is needed if mirroring has consumed and purged the earlier "
        "ones.",
    )
    NUMBER_REPEATED = Severity.ERROR.code(
        "Two files have the same number: a number was used again, or two publishers write this table.",
        "Let one publisher own the numbers, and keep the next number in a database, not in a listing. Then create the "
        "table again with a full load: which of the files was read is not certain.",
    )
    NUMBER_ZERO = Severity.ERROR.code(
        "A file has number 0. Numbers begin at 1.", "Number the files from 00000000000000000001."
    )
    WRONG_DIGITS = Severity.ERROR.code(
        "The name of a data file is a number that does not have exactly 20 digits.",
        "Name files by 20 digits with leading zeros, for example 00000000000000000001.parquet.",
    )
    NAME_NOT_A_NUMBER = Severity.ERROR.code(
        "A data file's name is not a number, such as a GUID. Such files have no order: a delete can be applied "
        "before its insert.",
        "Name files by 20 digits, in the order in which Fabric must apply them.",
    )
    WRONG_EXTENSION = Severity.ERROR.code(
        "The extension of a numbered file is not that of the table's format.",
        "Use `.parquet` in lower case, or declare the format and `FileExtension` in `_metadata.json`.",
    )
    FOREIGN_FILE = Severity.WARNING.code(
        "The table folder has a file that is neither data nor metadata.",
        "Delete it, or give it a name that starts with `_`: mirroring ignores such names.",
    )
    SPECIAL_ENTRY = Severity.ERROR.code(
        "An entry is neither a file nor a folder, but a link, FIFO, socket or device. OneLake has no such thing, and "
        "it was not opened.",
        "Replace it with the file itself.",
    )
    FOLDER_INSTEAD_OF_FILE = Severity.ERROR.code(
        "A folder has the name of a data file. Spark writes `<name>.parquet` as a folder of parts.",
        "Write one file, for example with PyArrow, or rename the single part to the number.",
    )
    PARTITION_FOLDER = Severity.WARNING.code(
        "The table folder has partition folders (`Key=Value`), and `isPartitionEnabled` is not set. They were not "
        "checked.",
        "Write the files into the table folder itself, or set `isPartitionEnabled` before the first file.",
    )
    FOREIGN_FOLDER = Severity.WARNING.code(
        "The table folder has a folder that mirroring does not read.",
        "Move data files into the table folder itself, and delete the folder.",
    )
    NO_DATA = Severity.ADVICE.code(
        "The table has metadata and no data file yet. After about two weeks, mirroring fails such a table.",
        "Publish a Parquet file with the table's columns and no row as file 1.",
    )
    NO_DATA_FOR_TWO_WEEKS = Severity.ERROR.code(
        "For two weeks the table has had metadata and no data. Mirroring fails it and can pause the whole database.",
        "Publish a Parquet file with the table's columns and no row as file 1, or delete the folder.",
    )
    TOO_MANY_FILES_PER_SECOND = Severity.ADVICE.code(
        "Files were published faster than one table absorbs: tests measured 0.4 to 0.8 files a second.",
        "Write larger files less often.",
    )
    MANY_TINY_FILES = Severity.ADVICE.code(
        "The table has many files of little content. Each costs requests, which count against the capacity.",
        "Collect changes for some seconds, and write fewer and larger files.",
    )

    # Metadata: findings about `_metadata.json`, and about the columns that it names.
    METADATA_MISSING = Severity.ERROR.code(
        "The table folder has no `_metadata.json`, and its files have row markers. Updates and deletes need its keys.",
        "Write it before the first data file, with `keyColumns`.",
    )
    METADATA_MISSING_FOR_INSERTS = Severity.WARNING.code(
        "The table folder has no `_metadata.json`. Its files have no row marker, so mirroring treats all rows as "
        "inserts, but one of Microsoft's pages requires the file.",
        "Write it: `keyColumns` if the table will have updates or deletes, else `{}`. It can be added later.",
    )
    METADATA_DAMAGED = Severity.ERROR.code(
        "`_metadata.json` cannot be used: it is not a file, not a JSON object, or a value has the wrong type.",
        'Replace it with valid JSON, for example `{"keyColumns": ["id"]}`.',
    )
    METADATA_AFTER_DATA = Severity.ADVICE.code(
        "`_metadata.json` is newer than the first data file. Mirroring may have read data without it.",
        "Write `_metadata.json` first. If the table works, no action is needed: the file may have been copied or "
        "renewed.",
    )
    UNKNOWN_METADATA_KEY = Severity.ADVICE.code(
        "`_metadata.json` has a key that open mirroring does not document.",
        "Remove it, or keep it if it is for your own use.",
    )
    WITHDRAWN_METADATA_KEY = Severity.WARNING.code(
        "`_metadata.json` has the key `ConditionalUpdateColumn`, which Microsoft documented for a time and withdrew.",
        "Remove it, and publish changes in their order.",
    )
    KEY_NOT_A_COLUMN = Severity.ERROR.code(
        "A key column is not in a data file. Changes cannot be matched to rows.",
        "Correct `keyColumns`, or write the column into every file.",
    )
    KEY_DIFFERS_IN_CASE = Severity.WARNING.code(
        "A key column has different letter case in `_metadata.json` than in the data files.",
        "Write the name in both places in the same letter case. Keys cannot be changed later: create the table again.",
    )
    TOO_MANY_KEYS = Severity.ADVICE.code(
        "The table has more than four key columns. Microsoft advises fewer than five.",
        "Use a shorter unique key, or one key column that combines the others.",
    )
    UNKNOWN_DETECTION = Severity.ERROR.code(
        "`fileDetectionStrategy` has a value that open mirroring does not know.",
        "Remove it: files are then detected by their sequential names.",
    )
    ORDERED_BY_TIME = Severity.WARNING.code(
        "`LastUpdateTimeFileDetection` orders files by their storage time. Files of the same time, and files "
        "that are written slowly, have no order.",
        "Use it for insert-only tables at most. For changes, remove it and number the files.",
    )
    TIME_TIES = Severity.ERROR.code(
        "Files have the same storage time, so that `LastUpdateTimeFileDetection` gives them no order.",
        "Number the files and remove `fileDetectionStrategy`. Create the table again if it has updates or deletes.",
    )
    PARTITIONS_ENABLED = Severity.WARNING.code(
        "`isPartitionEnabled` is set, which Microsoft's page of formats does not document. The files were checked as "
        "others use it: those of each partition are numbered from 1. Changes in different partitions have no order.",
        "Keep all changes of a key in one partition, or write all files into the table folder itself.",
    )
    UNKNOWN_FILE_FORMAT = Severity.ERROR.code(
        "`fileFormat` is neither Parquet nor delimited text.",
        "Use `Parquet`, `CSV` or `DelimitedText`.",
    )
    TEXT_WITHOUT_EXTENSION = Severity.ERROR.code(
        "`fileFormat` is `DelimitedText`, and `FileExtension` is missing.",
        "Add `FileExtension`, for example `tsv`.",
    )
    TEXT_WITHOUT_HEADER = Severity.ERROR.code(
        "`FirstRowAsHeader` is false. Delimited text must have a header row.",
        "Write the column names as the first row of each file, and remove the property.",
    )
    TEXT_WITHOUT_TYPES = Severity.WARNING.code(
        "The table is delimited text without `SchemaDefinition`: its columns have no types.",
        "Declare `SchemaDefinition` with each column's name and type, or publish Parquet.",
    )

    # Data files: findings about the content of data files, apart from their columns and rows.
    ZERO_BYTE_FILE = Severity.ERROR.code(
        "A data file is empty (0 bytes). It stops the table.",
        _REPLACE + " For no rows, write a Parquet file with columns and no row.",
    )
    MISPLACED_FILE = Severity.ERROR.code(
        "A file of Mirrorgate is not where the gateway published it: someone moved, swapped or copied files.",
        "Have the files written again (`mirrorgate tables repair`), or rebuild or recreate the table: Fabric may have "
        "read the wrong rows.",
    )
    TRUNCATED_FILE = Severity.ERROR.code(
        "A Parquet file has no end: it was visible before it was complete, or an upload ended early. It stops the "
        "table.",
        _REPLACE,
    )
    NOT_PARQUET = Severity.ERROR.code(
        "A file with the name of a Parquet file has other content. It stops the table.", _REPLACE
    )
    ENCRYPTED_FILE = Severity.ERROR.code(
        "A Parquet file is encrypted. Mirroring has no key for it.",
        "Write files without Parquet encryption: OneLake encrypts what it stores.",
    )
    DAMAGED_FOOTER = Severity.ERROR.code(
        "The footer of a Parquet file cannot be read. The file stops the table.", _REPLACE
    )
    DAMAGED_TEXT = Severity.ERROR.code(
        "A file of delimited text cannot be read as `_metadata.json` describes it.",
        "Correct the file under the same name, or the description: separator, quotes, encoding, types.",
    )
    UNSUPPORTED_COMPRESSION = Severity.ERROR.code(
        "A Parquet file is compressed by a codec that open mirroring does not read.",
        "Write it uncompressed, or with Snappy, GZIP or ZSTD.",
    )
    SMALL_ROW_GROUPS = Severity.ADVICE.code(
        "A Parquet file has many row groups of few rows. It is larger than necessary, and slow to read.",
        "Write row groups of some 100,000 to 1,000,000 rows: one write call per file, not one per row or batch.",
    )
    LARGE_ROW_GROUP = Severity.ADVICE.code(
        "A Parquet file has a row group of more than 1 GiB, which a reader may have to hold in memory.",
        "Write row groups of at most 1,000,000 rows or some 100 MB.",
    )
    LARGE_CELL = Severity.WARNING.code(
        "A string or binary value is larger than 16 MB, the most that the SQL endpoint shows.",
        "Keep such values outside of the table, and publish their address.",
    )

    # Columns: findings about columns: the row marker, names, types, and how they change from file to file.
    NO_COLUMNS = Severity.ERROR.code(
        "A data file has no column besides the row marker.", "Write at least the key columns."
    )
    MARKER_NOT_LAST = Severity.ERROR.code(
        "`__rowMarker__` is not the last column. It was first in the preview of 2025, and must be last today.",
        "Write `__rowMarker__` as the last column.",
    )
    MARKER_TYPE = Severity.ERROR.code(
        "`__rowMarker__` is not a column of whole numbers.",
        "Write it as int32 with the values 0, 1, 2 and 4.",
    )
    MARKER_CASE = Severity.ERROR.code(
        "The row marker has different letter case than `__rowMarker__`, so it can be read as a data column.",
        "Name the column exactly `__rowMarker__`.",
    )
    MARKER_MISSPELLED = Severity.WARNING.code(
        "A column has a name like that of the row marker. Without `__rowMarker__`, every row is an insert.",
        "Name the row marker exactly `__rowMarker__`. No action is needed if the column is data.",
    )
    COLUMNS_DIFFER_IN_CASE = Severity.ERROR.code(
        "Two columns of a file have the same name, or names that differ in letter case only.",
        "Give each column a name that differs from all others without regard to letter case.",
    )
    COLUMN_CASE_CHANGED = Severity.WARNING.code(
        "A column has different letter case than in an earlier file.",
        "Write a column's name in the same letter case in every file.",
    )
    BLANK_COLUMN_NAME = Severity.ERROR.code("A column has no name.", "Give every column a name.")
    UNSUPPORTED_TYPE = Severity.ERROR.code(
        "A column has a type that open mirroring does not read: a list, struct or map, no type at all, or a decimal of "
        "more than 38 digits.",
        "Write lists, structs and maps as JSON strings, and give other columns a simple Parquet type.",
    )
    DOUBTFUL_TYPE = Severity.WARNING.code(
        "A column has a Parquet type that Delta tables do not have: nanosecond timestamps, times of day, half floats "
        "or unsigned 64-bit numbers. Readers interpret it differently.",
        "Write timestamps in microseconds, times as strings, and numbers as int64, double or decimal.",
    )
    TYPE_CHANGED = Severity.ERROR.code(
        "A column has another type than in an earlier file. The table stops with `SchemaMergeFailure`.",
        "Write the file again with the former type, under the same name. For a new type, delete the folder, wait until "
        "the table is gone, and create it again with a full load.",
    )
    REQUIRED_COLUMN_MISSING = Severity.ERROR.code(
        "A file lacks a column that an earlier file declares as REQUIRED. The table stops.",
        "Write the column into every file. To drop it, create the table again.",
    )
    NEW_REQUIRED_COLUMN = Severity.WARNING.code(
        "A later file adds a column that is REQUIRED, although earlier rows have no value for it.",
        "Add columns as OPTIONAL (nullable).",
    )
    COLUMN_MISSING = Severity.ADVICE.code(
        "A file lacks a column that an earlier file has. Its rows get NULL there.",
        "Write every column into every file. No action is needed if the column was dropped at the source.",
    )
    BARE_FILES_FASTER = Severity.ADVICE.code(
        "The files of an insert-only table have the column `__rowMarker__`, with 0 in every row. Mirroring reads files "
        "without it faster.",
        "Leave the column out until the first update or delete.",
    )

    # Rows and keys: findings about rows and keys.
    MARKER_NULL = Severity.ERROR.code(
        "Rows have no value in `__rowMarker__`, although the file has the column.",
        "Write 0, 1, 2 or 4 in every row, or leave the column out of a file that has inserts only.",
    )
    MARKER_UNKNOWN = Severity.ERROR.code(
        "Rows have a value in `__rowMarker__` other than 0 (insert), 1 (update), 2 (delete) and 4 (upsert).",
        "Write 0, 1, 2 or 4 in every row.",
    )
    MARKER_WITHOUT_KEYS = Severity.ERROR.code(
        "Rows are updates, deletes or upserts, and the table has no key columns to find their rows by.",
        "Add `keyColumns` to `_metadata.json`, or publish inserts only.",
    )
    KEY_NULL = Severity.ERROR.code(
        "Rows have NULL in a key column. NULL equals nothing, so such a row is never updated or deleted.",
        "Choose key columns that always have a value, or write a value for it in the publisher.",
    )
    DUPLICATE_INSERT = Severity.ERROR.code(
        "Rows are inserts (marker 0) of a key that already has a row from an earlier file. Mirroring checks nothing "
        "and adds a second row.",
        "Write upserts (marker 4) where a row can be sent twice. " + _LOST,
    )
    DUPLICATE_IN_FILE = Severity.ERROR.code(
        "Rows are inserts (marker 0) of a key that already has a row in the same file. Mirroring adds a second row.",
        "Write upserts (marker 4), or remove duplicates before writing the file. Check that the key columns identify a "
        "row.",
    )
    UPDATE_OF_MISSING_ROW = Severity.WARNING.code(
        "Rows are updates (marker 1) of a key that has no row. Mirroring inserts them.", _LOST
    )
    DELETE_OF_MISSING_ROW = Severity.WARNING.code(
        "Rows are deletes (marker 2) of a key that has no row. Mirroring does nothing.", _LOST
    )
    UPDATE_WITHOUT_VALUES = Severity.WARNING.code(
        "Rows are updates or upserts in which every column but the key is NULL: probably partial rows. Mirroring "
        "replaces the whole row with them.",
        "Write full rows in updates and upserts. If these are deletes, mark them with 2.",
    )
    ROWS_UNREADABLE = Severity.ERROR.code(
        "The footer of a file can be read, and its rows cannot. The file stops the table.",
        "Put a valid file with the same rows under the same name.",
    )

    # Comparison: findings about the comparison with a Delta table (`--against`).
    AGAINST_TABLE_MISSING = Severity.ERROR.code(
        "There is no Delta table for a table of the zone.",
        "Give --against the folder that holds `<schema>/<table>` or `<table>`. If the table is new, wait until "
        "mirroring has created it.",
    )
    AGAINST_UNREADABLE = Severity.ERROR.code(
        "The Delta table cannot be read: it is damaged, or it needs a feature that deltalake does not read. Deletion "
        "vectors and column mapping are read.",
        "The detail names the cause. If it is a feature, compare with a copy of the table without it. If a table of "
        "Mirrorgate's mirror is damaged, `mirrorgate mirror status` has the remedy.",
    )
    AGAINST_SCHEMA_DIFFERS = Severity.ERROR.code(
        "The Delta table has other columns than the files of the zone, or columns with another kind of value. Types of "
        "one kind, such as decimals of two scales, are not a difference.",
        "Drop and recreate the table folder to rename, remove or change a column. Rows are compared by the columns "
        "that both have.",
    )
    AGAINST_MISSING_ROW = Severity.ERROR.code("Keys have a row in the zone and none in the Delta table.", _TRACE)
    AGAINST_EXTRA_ROW = Severity.ERROR.code("Keys have a row in the Delta table and none in the zone.", _TRACE)
    AGAINST_DIFFERS = Severity.ERROR.code(
        "Keys have rows on both sides, with other values or in other numbers.", _TRACE
    )
    AGAINST_NOT_COMPARED = Severity.ERROR.code(
        "A table cannot be compared: its metadata or a file cannot be read, or a file that the mirror applied is gone.",
        "Correct or restore the file that is named, or let the mirror catch up, and compare again.",
    )
    AGAINST_STOPPED = Severity.WARNING.code(
        "Only the files before a missing or unusable one are compared: mirroring stops the table there, too.",
        "Correct the file, and compare again.",
    )
    AGAINST_INCOMPLETE = Severity.ADVICE.code(
        "The first files of the table are no longer in the zone. Only keys that the present files change are compared.",
        "No action is needed if mirroring has removed files that it has consumed. Otherwise find out who removed them.",
    )
    AGAINST_BEHIND = Severity.ADVICE.code(
        "The Delta table is a mirror of Mirrorgate that has not applied all files. It is compared with the files that "
        "it has applied.",
        "Run the mirror, and compare again.",
    )


SUBJECTS: Final[Mapping[str, Sequence[FindingCode]]] = by_subject(
    {
        "The zone": FindingCode.PARTNER_EVENTS_MISSING,
        "Table folders and file names": FindingCode.NUMBER_GAP,
        "Metadata": FindingCode.METADATA_MISSING,
        "Data files": FindingCode.ZERO_BYTE_FILE,
        "Columns": FindingCode.NO_COLUMNS,
        "Rows and keys": FindingCode.MARKER_NULL,
        "Comparison": FindingCode.AGAINST_TABLE_MISSING,
    }
)
"""The codes by subject, in the order of docs/reference/verify-findings.md."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One deviation. Severity and remedy follow from the code."""

    code: FindingCode
    detail: str
    """Explanation of the problem, with names and numbers and without a row value."""
    table: str | None = None
    """`schema.table` or `table`; None for a finding about the zone."""
    file: str | None = None
    """Path below the zone's root; None for a finding about the table or the zone."""

    @property
    def severity(self) -> Severity:
        """Severity of the finding."""
        return self.code.severity

    @property
    def remedy(self) -> str:
        """Instruction that resolves the finding."""
        return self.code.remedy

    def to_json(self) -> dict[str, str | None]:
        """Return the finding as `verify --json` prints it."""
        return {
            "code": self.code,
            "severity": self.severity,
            "table": self.table,
            "file": self.file,
            "detail": self.detail,
            "remedy": self.remedy,
        }


def guarded(
    checks: Callable[[], Iterator[Finding]], name: str, *, table: str | None = None, file: str | None = None
) -> Iterator[Finding]:
    """Yield what the checks find. An exception ends them and becomes the last finding, about `table` and `file`.

    Raise Misconfigured, which is about the command and not about the zone, and KeyboardInterrupt.
    """
    try:
        yield from checks()
    except Misconfigured:
        raise
    except FileNotFoundError:
        detail = f"{name}: a file was moved or deleted while it was read"
        yield Finding(FindingCode.NOT_CHECKED, detail, table, file)
    except OSError as error:
        reason = error.strerror or (str(error).splitlines() or [type(error).__name__])[0]
        yield Finding(FindingCode.CANNOT_READ, f"{name}: {reason}", table, file)
    except (UnreadableFile, UnreadableMetadata) as error:
        yield Finding(FindingCode.CANNOT_READ, f"{name}: {error.reason}", table, file or error.path)
    except Exception as error:  # the last resort: a zone is foreign input
        if _is_interrupt(error):
            raise KeyboardInterrupt from error
        # The text of an unknown error can contain a row value; its type cannot.
        yield Finding(FindingCode.CHECK_FAILED, f"{name}: {type(error).__name__}", table, file)


def _is_interrupt(error: Exception) -> bool:
    """Return whether Ctrl-C ended a query: DuckDB replaces KeyboardInterrupt by a RuntimeError with this text."""
    return isinstance(error, RuntimeError) and "interrupted" in str(error).lower()
