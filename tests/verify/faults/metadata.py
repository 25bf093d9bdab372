"""Faults of `_metadata.json`."""

from datetime import timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa

from mirrorgate_zone.verify.codes import FindingCode
from tests.support.publishers import parquet_name
from tests.verify.planting import plants, plants_each
from tests.verify.zones import TableFolder, Zone, age, rows

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
