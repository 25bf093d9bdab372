"""Faults of table folders: names, numbers, what else is there, and pace."""

import os
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Final

from mirrorgate_zone.verify.checks.files import BARE_ROWS, PACE_FILES, TINY_FILES
from mirrorgate_zone.verify.codes import FindingCode
from tests.support.publishers import parquet_name
from tests.verify.planting import plants, plants_each
from tests.verify.zones import Zone, age, rows

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
