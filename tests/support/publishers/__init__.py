"""Landing zones as other publishers write them, with their documented layouts and their known faults.

Each function takes a folder that does not exist yet and writes a zone of one table, `orders` unless it says otherwise.
The programs that wrote such zones are public; the functions reproduce layouts, not code. `clean_zone` is the zone that
the others differ from, so a test can tell what the difference causes.
"""

from tests.support.publishers.delimited import camel_case_csv, csv_without_schema, documented_csv, semicolon_csv
from tests.support.publishers.files import NAME, changes, clean_zone, parquet_name, write_metadata, write_parquet
from tests.support.publishers.layouts import (
    backup_folders,
    bare_inserts,
    extra_metadata,
    guid_names,
    header_only_file,
    keyless_inserts,
    metadata_letter_case,
    missing_metadata,
    ordered_by_time,
    partition_folders,
    row_marker_first,
    spark_output,
)
from tests.support.publishers.lost_writes import (
    delete_file_replaces_upserts,
    gap,
    half_written_file,
    replayed_file,
    type_flip,
    zero_byte_file,
)

__all__ = [
    "NAME",
    "backup_folders",
    "bare_inserts",
    "camel_case_csv",
    "changes",
    "clean_zone",
    "csv_without_schema",
    "delete_file_replaces_upserts",
    "documented_csv",
    "extra_metadata",
    "gap",
    "guid_names",
    "half_written_file",
    "header_only_file",
    "keyless_inserts",
    "metadata_letter_case",
    "missing_metadata",
    "ordered_by_time",
    "parquet_name",
    "partition_folders",
    "replayed_file",
    "row_marker_first",
    "semicolon_csv",
    "spark_output",
    "type_flip",
    "write_metadata",
    "write_parquet",
    "zero_byte_file",
]
