"""A table, its planned and built files, and a local zone that has the scratch of their owner."""

import json
from pathlib import Path
from uuid import UUID

import pytest

from app.domain.model.landing_file import BuiltFile, FileIdentity, PlannedFile, file_name
from app.domain.model.names import TableName
from app.domain.model.table import BatchSequence, Epoch, FileNumber, Generation, Table, TableId, TableState
from app.domain.model.table_schema import SchemaVersion
from app.domain.rows.landing_rows import landing_rows
from app.landing.local_zone import LocalZone
from app.landing.parquet_file import FileLayout, write_parquet
from app.landing.publish import (
    Scratch,
    prepare_folder,
)
from tests.support.gateway_parts import inserts
from tests.support.samples.schemas import schema_of

INSTALLATION, OTHER_INSTALLATION = UUID(int=1), UUID(int=2)
KEYLESS = schema_of({"id": "int64"})
KEYED = schema_of({"id": "int64"}, ["id"])
EPOCH = Epoch(3)
SCRATCH = Scratch(TableId(5), EPOCH)


def zone_with_scratch(folder: Path) -> LocalZone:
    """Return a zone in this folder with the scratch of the epoch that publishes."""
    zone = LocalZone(folder)
    zone.create_folder(SCRATCH.folder)
    return zone


def table(name: str = "sales.orders", *, generation: int = 1, keyed: bool = True) -> Table:
    schema = KEYED if keyed else KEYLESS
    return Table(TableId(5), TableName.parse(name), Generation(generation), TableState.ACTIVE, SchemaVersion(1), schema)


def planned(number: int = 1, digest: str = "ab") -> PlannedFile:
    sequence = BatchSequence(number)
    identity = FileIdentity("sales.orders", Generation(1), FileNumber(number), sequence, sequence, 1, digest)
    return PlannedFile(TableId(5), SchemaVersion(1), identity)


def build(zone: LocalZone, file: PlannedFile, temp_name: str = "temp") -> BuiltFile:
    """Write the planned file into scratch."""
    batch = landing_rows(inserts([{"id": 1}]), KEYED).batch
    with zone.write_file(SCRATCH.path(temp_name)) as sink:
        facts = write_parquet(sink, KEYED, [batch], file.identity, FileLayout(False, "zstd"))
    return BuiltFile(file, EPOCH, temp_name, facts.file_bytes, facts.file_sha256)


def prepare(zone: LocalZone, of: Table, *, published_before: bool = False, installation: UUID = INSTALLATION) -> None:
    prepare_folder(zone, of, installation, SCRATCH, published_before=published_before)


def move_away(zone: LocalZone, processed: str, number: int = 1) -> None:
    """Move a file away as mirroring does once it has consumed it."""
    folder, file = table().name.folder, file_name(FileNumber(number))
    zone.create_folder(f"{folder}/{processed}")
    zone.rename(f"{folder}/{file}", f"{folder}/{processed}/{file}")


def made_durable(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which the paths that become durable from now on are added."""
    paths: list[str] = []
    monkeypatch.setattr(LocalZone, "make_durable", lambda _, path: paths.append(path))
    return paths


def read(zone: LocalZone, path: str) -> object:
    with zone.read_file(path) as file:
        return json.loads(file.read())
