"""Faults of the zone, of table folders with their files, and of `_metadata.json`."""

import os
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa

from mirrorgate_zone.verify.checks.files import BARE_ROWS, PACE_FILES, TINY_FILES
from mirrorgate_zone.verify.codes import FindingCode
from tests.support.publishers import parquet_name
from tests.verify.planting import plants, plants_each
from tests.verify.zones import TableFolder, Zone, age, rows

FILES: Final = {
    "number_used_again": (FindingCode.NUMBER_REPEATED, f"_FilesReadyToDelete/{parquet_name(2)}"),
    "number_zero": (FindingCode.NUMBER_ZERO, parquet_name(0)),
    "nineteen_digits": (FindingCode.WRONG_DIGITS, f"{3:019}.parquet"),
    "guid_name": (FindingCode.NAME_NOT_A_NUMBER, "7d6ac1a4-30c8-4f0e-8e44-8f1b2f6fb8a5.parquet"),
    "capital_extension": (FindingCode.WRONG_EXTENSION, f"{3:020}.PARQUET"),
}
plants_each(FILES, lambda zone, name: zone.clean().named(name, rows(7)))

TEXTS: Final = {
    "text_in_a_parquet_table": (FindingCode.WRONG_EXTENSION, f"{3:020}.csv"),
    "notes": (FindingCode.FOREIGN_FILE, "README.md"),
}
plants_each(TEXTS, lambda zone, name: zone.clean().raw(name, b"id,name\r\n1,a\r\n"))

FOLDERS: Final = {
    "folder_of_parts": (FindingCode.FOLDER_INSTEAD_OF_FILE, parquet_name(3)),
    "partition": (FindingCode.PARTITION_FOLDER, "region=east"),
    "backup": (FindingCode.FOREIGN_FOLDER, "backup"),
}
plants_each(FOLDERS, lambda zone, name: zone.clean().named(f"{name}/{parquet_name(1)}", rows(7)).parent)


@plants(FindingCode.NUMBER_GAP)
def gap(zone: Zone) -> Path:
    table = zone.clean()
    table.file(4, rows(4))
    return table.path / parquet_name(3)


@plants(FindingCode.NUMBER_GAP)
def gap_between_consumed_files_and_new_ones(zone: Zone) -> Path:
    table = zone.clean()
    (table.path / "_ProcessedFiles").mkdir()
    for number in (1, 2):
        (table.path / parquet_name(number)).rename(table.path / "_ProcessedFiles" / parquet_name(number))
    table.file(4, rows(4))
    return table.path / parquet_name(3)


@plants(FindingCode.FIRST_FILE_MISSING)
def starts_at_two(zone: Zone) -> Path:
    return zone.table().file(2, rows(1))


@plants(FindingCode.SPECIAL_ENTRY)
def pipe(zone: Zone) -> Path:
    path = zone.clean().path / parquet_name(3)
    os.mkfifo(path)
    return path


@plants(FindingCode.SPECIAL_ENTRY)
def link_to_a_file(zone: Zone) -> Path:
    table = zone.clean()
    (table.path / parquet_name(3)).symlink_to(table.path / parquet_name(1))
    return table.path / parquet_name(3)


@plants(FindingCode.NO_DATA)
def no_data(zone: Zone) -> None:
    zone.table()


@plants(FindingCode.NO_DATA_FOR_TWO_WEEKS)
def no_data_for_long(zone: Zone) -> None:
    age(zone.table().path / "_metadata.json", timedelta(days=15))


def write_at_a_pace(zone: Zone, pace: tuple[int, float]) -> None:
    """Write a number of small files, so many seconds apart."""
    count, seconds = pace
    table = zone.table()
    source = table.file(1, rows(1))
    for number in range(1, count + 1):
        path = table.path / parquet_name(number)
        if number > 1:
            shutil.copy(source, path)
        age(path, timedelta(seconds=seconds * (count - number)))


PACES: Final = {
    "fast_files": (FindingCode.TOO_MANY_FILES_PER_SECOND, (PACE_FILES, 0.5)),
    "tiny_files": (FindingCode.MANY_TINY_FILES, (TINY_FILES, 2.0)),
}
plants_each(PACES, write_at_a_pace)


@plants(FindingCode.BARE_FILES_FASTER)
def marked_inserts(zone: Zone) -> None:
    zone.table().file(1, rows(*range(BARE_ROWS)))


CONTENTS: Final = {
    "final_comma": (FindingCode.METADATA_DAMAGED, b'{"keyColumns": ["id"],}'),
    "keys_as_text": (FindingCode.METADATA_DAMAGED, b'{"keyColumns": "id"}'),
    "deep_metadata": (FindingCode.METADATA_DAMAGED, b"[" * 200_000),
    "metadata_of_undecodable_bytes": (FindingCode.METADATA_DAMAGED, b"\xff\xfe\x00"),
    "own_key": (FindingCode.UNKNOWN_METADATA_KEY, b'{"keyColumns": ["id"], "SourceQuery": "SELECT 1"}'),
    "conditional_updates": (
        FindingCode.WITHDRAWN_METADATA_KEY,
        b'{"keyColumns": ["id"], "ConditionalUpdateColumn": "seq"}',
    ),
    "unknown_detection": (
        FindingCode.UNKNOWN_DETECTION,
        b'{"keyColumns": ["id"], "fileDetectionStrategy": "Random"}',
    ),
}
plants_each(CONTENTS, lambda zone, content: zone.clean().raw_metadata(content))


@plants(FindingCode.METADATA_MISSING)
def no_metadata(zone: Zone) -> Path:
    path = zone.clean().path / "_metadata.json"
    path.unlink()
    return path


@plants(FindingCode.METADATA_MISSING_FOR_INSERTS)
def no_metadata_for_inserts(zone: Zone) -> Path:
    zone.folder().file(1, rows(1, 2, marker=None))
    return zone.folder().path / "_metadata.json"


@plants(FindingCode.METADATA_DAMAGED)
def metadata_folder(zone: Zone) -> Path:
    path = zone.clean().path / "_metadata.json"
    path.unlink()
    path.mkdir()
    age(path, timedelta(hours=1))
    return path


@plants(FindingCode.METADATA_AFTER_DATA)
def late_metadata(zone: Zone) -> Path:
    table = zone.clean()
    for path in table.path.glob("*.parquet"):
        age(path, timedelta(hours=2))
    return table.path / "_metadata.json"


@plants(FindingCode.KEY_NOT_A_COLUMN)
def unknown_key(zone: Zone) -> Path:
    table = zone.table(keys=("id", "region"))
    return table.file(1, rows(1))


@plants(FindingCode.KEY_NOT_A_COLUMN, FindingCode.COLUMN_MISSING)
def key_missing_in_a_later_file(zone: Zone) -> Path:
    return zone.clean().file(3, rows(3).drop_columns("id"))


@plants(FindingCode.KEY_DIFFERS_IN_CASE)
def key_in_capitals(zone: Zone) -> Path:
    return zone.table(keys=("ID",)).file(1, rows(1))


@plants(FindingCode.TOO_MANY_KEYS)
def five_keys(zone: Zone) -> Path:
    table = zone.table(keys=("id", "a", "b", "c", "d"))
    table.file(1, rows(1, marker=None, **{name: [1] for name in "abcd"}))
    return table.path / "_metadata.json"


@plants(FindingCode.ORDERED_BY_TIME)
def ordered_by_time(zone: Zone) -> Path:
    table = zone.table(fileDetectionStrategy="LastUpdateTimeFileDetection")
    for position, name in enumerate(("b.parquet", "a.parquet")):
        age(table.named(name, rows(position)), timedelta(seconds=10 - position))
    return table.path / "_metadata.json"


@plants(FindingCode.TIME_TIES, FindingCode.ORDERED_BY_TIME)
def ties(zone: Zone) -> Path:
    table = zone.table(fileDetectionStrategy="lastUpdateTimeFileDetection")
    for name in ("b.parquet", "a.parquet"):
        age(table.named(name, rows(1 if name == "a.parquet" else 2)), timedelta(seconds=10))
    return table.path / "a.parquet"


def partitioned(zone: Zone) -> TableFolder:
    table = zone.table(isPartitionEnabled="true")
    for number in (1, 2):
        for partition in ("region=east", "region=west/year=2026"):
            table.named(f"{partition}/{parquet_name(number)}", rows(number))
    return table


@plants(FindingCode.PARTITIONS_ENABLED)
def partitions_with_numbers_of_their_own(zone: Zone) -> Path:
    return partitioned(zone).path / "_metadata.json"


@plants(FindingCode.NUMBER_GAP, FindingCode.PARTITIONS_ENABLED)
def gap_in_a_partition(zone: Zone) -> Path:
    table = partitioned(zone)
    table.named(f"region=west/year=2026/{parquet_name(4)}", rows(4))
    return table.path / f"region=west/year=2026/{parquet_name(3)}"


@plants(FindingCode.TYPE_CHANGED, FindingCode.PARTITIONS_ENABLED)
def type_of_another_partition(zone: Zone) -> Path:
    return partitioned(zone).named(f"region=west/{parquet_name(1)}", pa.table({"id": ["1"], "name": ["a"]}))


@plants(FindingCode.UNKNOWN_FILE_FORMAT, FindingCode.WRONG_EXTENSION, FindingCode.TEXT_WITHOUT_TYPES)
def unknown_format(zone: Zone) -> Path:
    return zone.clean().metadata(fileFormat="Avro")


def write_partner_events(zone: Zone, text: str | None) -> Path:
    """Give a clean zone other partner events, or none."""
    zone.clean()
    path = zone.root / "_partnerEvents.json"
    path.unlink()
    if text is not None:
        path.write_text(text)
    return path


PARTNER_EVENTS: Final = {
    "no_partner_events": (FindingCode.PARTNER_EVENTS_MISSING, None),
    "broken_partner_events": (FindingCode.PARTNER_EVENTS_DAMAGED, '{"partnerName": "x",'),
    "partner_events_without_source": (FindingCode.PARTNER_EVENTS_DAMAGED, '{"partnerName": "x", "sourceInfo": {}}'),
}
plants_each(PARTNER_EVENTS, write_partner_events)


@plants(FindingCode.FILE_OUTSIDE_TABLE)
def data_at_the_root(zone: Zone) -> Path:
    zone.clean()
    return zone.folder(".").file(1, rows(1))


@plants(FindingCode.FILE_OUTSIDE_TABLE)
def data_in_a_schema_folder(zone: Zone) -> Path:
    zone.clean("dbo.schema/t")
    return zone.folder("dbo.schema").file(1, rows(1))


@plants(FindingCode.EMPTY_SCHEMA_FOLDER)
def empty_schema(zone: Zone) -> Path:
    zone.clean()
    return zone.folder("sales.schema").path


@plants(FindingCode.TABLE_NAMES_DIFFER_IN_CASE)
def tables_of_one_name(zone: Zone) -> None:
    zone.clean("orders")
    zone.clean("Orders")


@plants(FindingCode.TABLE_NAMES_DIFFER_IN_CASE)
def tables_of_one_name_in_the_default_schema(zone: Zone) -> None:
    zone.clean("orders")
    zone.clean("dbo.schema/orders")


@plants(FindingCode.SPECIAL_ENTRY)
def link_at_the_root(zone: Zone) -> Path:
    zone.clean()
    (zone.root / "link").symlink_to(zone.root / "nowhere")
    return zone.root / "link"


@plants(FindingCode.OLD_HIDDEN_FILES)
def old_scratch(zone: Zone) -> Path:
    zone.clean()
    path = zone.folder("_scratchPad/7/3").raw("build.parquet", b"half")
    age(path, timedelta(days=8))
    return path


@plants(FindingCode.OLD_HIDDEN_FILES)
def old_temporary_file_of_a_table(zone: Zone) -> Path:
    path = zone.clean().raw("_temp-4711.parquet", b"half")
    age(path, timedelta(days=8))
    return path


@plants(FindingCode.TOO_MANY_TABLES)
def thousand_and_one_tables(zone: Zone) -> None:
    first = zone.table("t0")
    source = first.file(1, rows(1))
    for number in range(1, 1_001):
        folder = zone.folder(f"t{number}").path
        for path in (source, first.path / "_metadata.json"):
            os.link(path, folder / path.name)
