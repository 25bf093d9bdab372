"""Tables of a gateway whose files land and are mirrored, without a drain and a mirror process around them."""

import json
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from app.domain.arrow.payload import decode_payload
from app.domain.mirror.table_report import MirrorState, TableReport
from app.domain.model.landing_file import BatchRange, PlannedFile
from app.domain.model.names import TableName
from app.domain.model.table import Table
from app.landing.folder_marker import MARKER, FolderMarker
from app.landing.local_zone import LocalZone
from app.mirror.table_mirror import MirrorLimits, advance_table
from app.mirror.target import MirrorTarget
from app.mirror.typed_rows import VersionRows
from app.published.table_folders import PublishedTable
from app.staging.batches.staged_blocks import read_payloads
from app.staging.connection.database import installation_id
from app.staging.mirror.reports import store_reports
from app.staging.tables.schema_versions import schema_of_version
from tests.support.gateway_parts import current
from tests.support.postgres.ledger import Owned, claim_by, plan, publish

_SLICE_BYTES: Final = 2**20


class MirroredTable:
    """A table with a landing folder and a Delta table, both in a folder of the test."""

    def __init__(self, engine: sa.Engine, table: Table, root: Path) -> None:
        self.engine, self.name = engine, str(table.name)
        self.zone, self.target = root / "zone", MirrorTarget(str(root / "mirror"))
        self.folder = self.zone / table.name.folder
        self.folder.mkdir(parents=True)
        metadata = {"keyColumns": list(table.schema.landing.key_columns)}
        (self.folder / "_metadata.json").write_text(json.dumps(metadata))
        with engine.begin() as connection:
            marker = FolderMarker.of(table, installation_id(connection))
        (self.folder / MARKER).write_bytes(marker.content())
        self._owner = claim_by(engine, table.table_id)

    def publish(self) -> None:
        """Land all staged batches, a file for each block."""
        owned = Owned(current(self.engine, self.name), *self._owner)
        for planned in plan(self.engine, owned):
            pq.write_table(self._rows(owned.table, planned), self.folder / f"{planned.identity.number:020d}.parquet")
            publish(self.engine, owned, planned)

    def mirror(self) -> TableReport:
        """Apply all files, and report it."""
        published = PublishedTable.at(current(self.engine, self.name).name.folder)
        while True:
            report = advance_table(LocalZone(self.zone), self.target, published, MirrorLimits())
            assert report.state in {MirrorState.IN_STEP, MirrorState.BEHIND}, report.detail
            if report.state is MirrorState.IN_STEP:
                store_reports(self.engine, [report])
                return report

    def reader(self, table: TableName, version: int | None) -> VersionRows:
        """Open a mirrored table, as a backfill does."""
        return VersionRows.open(self.target, PublishedTable.at(table.folder), version)

    def _rows(self, table: Table, planned: PlannedFile) -> pa.Table:
        with self.engine.begin() as connection:
            schema = schema_of_version(connection, table.table_id, table.generation, planned.schema_version)
        whole = BatchRange(planned.identity.first_sequence, planned.identity.last_sequence)
        blocks = read_payloads(self.engine, table.table_id, table.generation, whole, slice_bytes=_SLICE_BYTES)
        batches = [decode_payload(payload, schema.landing.arrow) for _, payload in blocks]
        return pa.Table.from_batches(batches, schema.landing.arrow)
