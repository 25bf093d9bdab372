"""Findings about `_metadata.json`, and about the columns that it names."""

from collections.abc import Mapping
from typing import Final

from app.verify.catalogue.entry import Entry, advice, error, warning
from app.verify.codes import FindingCode

METADATA: Final[Mapping[FindingCode, Entry]] = {
    FindingCode.METADATA_MISSING: error(
        "The table folder has no `_metadata.json`. Data without it breaks the table.",
        "Write it before the first data file: `keyColumns` for a table with updates or deletes, else `{}`.",
    ),
    FindingCode.METADATA_DAMAGED: error(
        "`_metadata.json` cannot be used: it is no file, no JSON object, or a value has the wrong type.",
        'Replace it by valid JSON, for example `{"keyColumns": ["id"]}`.',
    ),
    FindingCode.METADATA_AFTER_DATA: advice(
        "`_metadata.json` is newer than the first data file. Mirroring may have read data without it.",
        "Write `_metadata.json` first. If the table works, nothing is to do: the file may have been copied or renewed.",
    ),
    FindingCode.UNKNOWN_METADATA_KEY: advice(
        "`_metadata.json` has a key that open mirroring does not document.",
        "Remove it, or keep it if it is for your own use.",
    ),
    FindingCode.WITHDRAWN_METADATA_KEY: warning(
        "`_metadata.json` has the key `ConditionalUpdateColumn`, which Microsoft documented for a time and withdrew.",
        "Remove it, and publish changes in their order.",
    ),
    FindingCode.KEY_NOT_A_COLUMN: error(
        "A key column is not in a data file. Changes cannot be matched to rows.",
        "Correct `keyColumns`, or write the column into every file.",
    ),
    FindingCode.KEY_DIFFERS_IN_CASE: warning(
        "A key column has other letter case in `_metadata.json` than in the data files.",
        "Write the name in both places in the same letter case. Keys cannot be changed later: create the table again.",
    ),
    FindingCode.TOO_MANY_KEYS: advice(
        "The table has more than four key columns. Microsoft advises fewer than five.",
        "Use a shorter unique key, or one key column that combines the others.",
    ),
    FindingCode.UNKNOWN_DETECTION: error(
        "`fileDetectionStrategy` has a value that open mirroring does not know.",
        "Remove it: files are then detected by their sequential names.",
    ),
    FindingCode.ORDERED_BY_TIME: warning(
        "`LastUpdateTimeFileDetection` orders files by their storage time. Files of the same time have no order, and "
        "neither has a file that is written slowly.",
        "Use it for insert-only tables at most. For changes, remove it and number the files.",
    ),
    FindingCode.TIME_TIES: error(
        "Files have the same storage time, so that `LastUpdateTimeFileDetection` gives them no order.",
        "Number the files and remove `fileDetectionStrategy`. Create the table again if it has updates or deletes.",
    ),
    FindingCode.PARTITIONS_ENABLED: error(
        "`isPartitionEnabled` is set, which open mirroring does not document. Partitions were not checked.",
        "Remove it, and write all files into the table folder itself.",
    ),
    FindingCode.UNKNOWN_FILE_FORMAT: error(
        "`fileFormat` is neither Parquet nor delimited text.",
        "Use `Parquet`, `CSV` or `DelimitedText`.",
    ),
    FindingCode.TEXT_WITHOUT_EXTENSION: error(
        "`fileFormat` is `DelimitedText`, and `FileExtension` is missing.",
        "Add `FileExtension`, for example `tsv`.",
    ),
    FindingCode.TEXT_WITHOUT_HEADER: error(
        "`FirstRowAsHeader` is false. Delimited text must have a header row.",
        "Write the column names as the first row of each file, and remove the property.",
    ),
    FindingCode.TEXT_WITHOUT_TYPES: warning(
        "The table is delimited text without `SchemaDefinition`: its columns have no types.",
        "Declare `SchemaDefinition` with each column's name and type, or publish Parquet.",
    ),
}
