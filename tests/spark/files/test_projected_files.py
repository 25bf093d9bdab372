"""Files of tables that land other columns, values and rows than their sources send, from messages to Delta tables."""

import json
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from app.domain.model.table_schema import Column, ColumnType
from app.landing.local_zone import LocalZone
from app.mirror.table_mirror import MirrorLimits, advance_table
from app.mirror.target import MirrorTarget
from app.mirror.typed_rows import typed_rows
from app.published.table_files import PublishedTable
from mirrorgate_zone.verify.codes import FindingCode
from tests.spark.conftest import NewWorker, drain
from tests.support.hashes import hashed
from tests.support.ingest_harness import open_harness
from tests.support.samples.messages import arcion
from tests.support.samples.schemas import schema_of
from tests.verify.runs import codes

SECRET: Final = b"a secret only for tests of masked values"
SCHEMA: Final = schema_of({"mail": "string", "city": "string", "phone": "string"}, ["mail"], ["mail"])
PROJECTED: Final[dict[str, Any]] = {
    "audit_columns": {"operation": "_op"},
    "rename": {"mail": "person"},
    "constants": {"region": {"type": "string", "value": "EU"}},
    "masks": {"mail": {"method": "hash"}, "phone": {"method": "truncate", "characters": 3}},
    "filter": {"column": "city", "op": "=", "value": "Rome"},
}
FLAGGING: Final[dict[str, Any]] = {
    "audit_columns": {"deleted": "_deleted"},
    "rename": {"city": "town"},
    "deletes": "flag",
    "row_images": "on",
}
ADA: Final = {"mail": "ada@example.com", "city": "Rome", "phone": "+39 06 1"}
BOB: Final = {"mail": "bob@example.com", "city": "Rome", "phone": "+39 06 2"}


def file_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of all files in order; their columns are those of the first."""
    files = [pq.read_table(path) for path in sorted(folder.glob("*.parquet"))]
    rows: list[dict[str, Any]] = pa.concat_tables(files).to_pylist()
    return rows


def test_files_have_the_rows_and_columns_that_the_options_declare_and_a_mirror_applies_them(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker, tmp_path: Path
) -> None:
    worker = new_worker()
    with open_harness(engine, mask_secret=SECRET) as harness:
        scope = f"table:{harness.put('projected', SCHEMA, **PROJECTED).table.table_id}"
        harness.put("flagging", SCHEMA, **FLAGGING)
        for table in ("projected", "flagging"):
            harness.arcion(*(arcion(table, None, row) for row in (ADA, BOB)))
        drain(worker)
        for table in ("projected", "flagging"):
            harness.arcion(arcion(table, ADA, ADA | {"city": "Oslo"}), arcion(table, BOB))
    drain(worker)
    metadata = json.loads((landing_zone / "projected" / "_metadata.json").read_bytes())
    assert metadata["keyColumns"] == ["person"]
    masked = {"city": "Rome", "phone": "+39", "region": "EU", "_op": "insert", "__rowMarker__": 0}
    gone = {"city": None, "phone": None, "region": "EU", "_op": "delete", "__rowMarker__": 2}
    assert file_rows(landing_zone / "projected") == [
        *({"person": hashed(SECRET, scope, row["mail"])} | masked for row in (ADA, BOB)),
        *({"person": hashed(SECRET, scope, row["mail"])} | gone for row in (ADA, BOB)),
    ]
    assert [(row["mail"][:3], row["town"], row["_deleted"]) for row in file_rows(landing_zone / "flagging")[2:]] == [
        ("ada", "Oslo", False),
        ("bob", "Rome", True),
    ]
    assert codes(landing_zone) == {FindingCode.PARTNER_EVENTS_MISSING}  # which the start of a drain process writes
    zone, target = LocalZone(landing_zone), MirrorTarget(str(tmp_path / "mirror"))
    for folder in ("projected", "flagging"):
        advance_table(zone, target, PublishedTable.at(folder), MirrorLimits())
    columns = [Column(name, ColumnType.parse("string")) for name in ("mail", "town")]
    present = typed_rows(target, PublishedTable.at("flagging"), columns, flag="_deleted")
    assert [[array.to_pylist() for array in arrays] for arrays in present] == [[["ada@example.com"], ["Oslo"]]]
    all_rows = typed_rows(target, PublishedTable.at("flagging"), columns)
    assert sum(len(arrays[0]) for arrays in all_rows) == 2
    people = typed_rows(target, PublishedTable.at("projected"), [Column("person", columns[0].type)])
    assert not any(len(arrays[0]) for arrays in people)
