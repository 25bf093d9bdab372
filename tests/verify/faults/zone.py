"""Faults at the root of a zone."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Final

from mirrorgate_zone.verify.codes import FindingCode
from tests.verify.planting import plants, plants_each
from tests.verify.zones import Zone, age, rows


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
