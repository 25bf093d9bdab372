"""Faults of table folders: names, numbers, what else is there, and pace."""

import os
import shutil
from datetime import timedelta
from pathlib import Path

from mirrorgate_zone.verify.checks.files import BARE_ROWS, PACE_FILES, TINY_FILES
from mirrorgate_zone.verify.codes import FindingCode
from tests.verify.planting import plants
from tests.verify.zones import Zone, age, file_name, rows


@plants(FindingCode.NUMBER_GAP)
def gap(zone: Zone) -> Path:
    table = zone.clean()
    table.file(4, rows(4))
    return table.path / file_name(3)


@plants(FindingCode.NUMBER_GAP)
def gap_between_consumed_files_and_new_ones(zone: Zone) -> Path:
    table = zone.clean()
    (table.path / "_ProcessedFiles").mkdir()
    for number in (1, 2):
        (table.path / file_name(number)).rename(table.path / "_ProcessedFiles" / file_name(number))
    table.file(4, rows(4))
    return table.path / file_name(3)


@plants(FindingCode.FIRST_FILE_MISSING)
def starts_at_two(zone: Zone) -> Path:
    return zone.table().file(2, rows(1))


@plants(FindingCode.NUMBER_REPEATED)
def number_used_again(zone: Zone) -> Path:
    table = zone.clean()
    return table.named(f"_FilesReadyToDelete/{file_name(2)}", rows(7))


@plants(FindingCode.NUMBER_ZERO)
def number_zero(zone: Zone) -> Path:
    return zone.clean().file(0, rows(7))


@plants(FindingCode.WRONG_DIGITS)
def nineteen_digits(zone: Zone) -> Path:
    return zone.clean().named(f"{3:019}.parquet", rows(7))


@plants(FindingCode.NAME_NOT_A_NUMBER)
def guid_name(zone: Zone) -> Path:
    return zone.clean().named("7d6ac1a4-30c8-4f0e-8e44-8f1b2f6fb8a5.parquet", rows(7))


@plants(FindingCode.WRONG_EXTENSION)
def capital_extension(zone: Zone) -> Path:
    return zone.clean().named(f"{3:020}.PARQUET", rows(7))


@plants(FindingCode.WRONG_EXTENSION)
def text_in_a_parquet_table(zone: Zone) -> Path:
    return zone.clean().raw(f"{3:020}.csv", b"id,name\r\n1,a\r\n")


@plants(FindingCode.FOREIGN_FILE)
def notes(zone: Zone) -> Path:
    return zone.clean().raw("README.md", b"# notes")


@plants(FindingCode.SPECIAL_ENTRY)
def pipe(zone: Zone) -> Path:
    path = zone.clean().path / file_name(3)
    os.mkfifo(path)
    return path


@plants(FindingCode.SPECIAL_ENTRY)
def link_to_a_file(zone: Zone) -> Path:
    table = zone.clean()
    (table.path / file_name(3)).symlink_to(table.path / file_name(1))
    return table.path / file_name(3)


@plants(FindingCode.FOLDER_INSTEAD_OF_FILE)
def folder_of_parts(zone: Zone) -> Path:
    return zone.clean().named(f"{file_name(3)}/part-00000.parquet", rows(7)).parent


@plants(FindingCode.PARTITION_FOLDER)
def partition(zone: Zone) -> Path:
    return zone.clean().named(f"region=east/{file_name(1)}", rows(7)).parent


@plants(FindingCode.FOREIGN_FOLDER)
def backup(zone: Zone) -> Path:
    return zone.clean().named(f"backup/{file_name(1)}", rows(7)).parent


@plants(FindingCode.NO_DATA)
def no_data(zone: Zone) -> None:
    zone.table()


@plants(FindingCode.NO_DATA_FOR_TWO_WEEKS)
def no_data_for_long(zone: Zone) -> None:
    age(zone.table().path / "_metadata.json", timedelta(days=15))


@plants(FindingCode.TOO_MANY_FILES_PER_SECOND)
def fast_files(zone: Zone) -> None:
    table = zone.table()
    source = table.file(1, rows(1))
    for number in range(1, PACE_FILES + 1):
        path = table.path / file_name(number)
        if number > 1:
            shutil.copy(source, path)
        age(path, timedelta(seconds=(PACE_FILES - number) / 2))


@plants(FindingCode.MANY_TINY_FILES)
def tiny_files(zone: Zone) -> None:
    table = zone.table()
    source = table.file(1, rows(1))
    for number in range(1, TINY_FILES + 1):
        path = table.path / file_name(number)
        if number > 1:
            shutil.copy(source, path)
        age(path, timedelta(seconds=2 * (TINY_FILES - number)))


@plants(FindingCode.BARE_FILES_FASTER)
def marked_inserts(zone: Zone) -> None:
    zone.table().file(1, rows(*range(BARE_ROWS)))
