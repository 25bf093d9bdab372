"""Landing zones as other publishers write them, with their documented layouts and their known faults.

Each function takes a folder that does not exist yet and writes a zone of one table, `orders` unless it says otherwise.
The programs that wrote such zones are public; the functions reproduce layouts, not code. `clean_zone` is the zone that
the others differ from, so a test can tell what the difference causes.
"""

from tests.support.publishers.files import NAME, changes, clean_zone, parquet_name, write_metadata, write_parquet
from tests.support.publishers.layouts import (
    bare_inserts,
    camel_case_csv,
    csv_without_schema,
    delete_file_replaces_upserts,
    documented_csv,
    guid_names,
    header_only_file,
    keyless_inserts,
    ordered_by_time,
    partition_folders,
    replayed_file,
    semicolon_csv,
    spark_output,
)

__all__ = [
    "NAME",
    "bare_inserts",
    "camel_case_csv",
    "changes",
    "clean_zone",
    "csv_without_schema",
    "delete_file_replaces_upserts",
    "documented_csv",
    "guid_names",
    "header_only_file",
    "keyless_inserts",
    "ordered_by_time",
    "parquet_name",
    "partition_folders",
    "replayed_file",
    "semicolon_csv",
    "spark_output",
    "write_metadata",
    "write_parquet",
]
