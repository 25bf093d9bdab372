"""Reports of the mirror, as its process would make them of a table of this database."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from app.domain.mirror_report import FolderOwner, MirrorState, TableReport
from app.domain.model.table import Table
from app.staging.connection.database import installation_id
from tests.support.postgres import sql

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
IN_STEP = TableReport(
    table="t",
    state=MirrorState.IN_STEP,
    version=0,
    generation=1,
    file_number=1,
    last_file=1,
    pending_files=0,
    code=None,
    detail=None,
    remedy=None,
    committed_at=NOON,
    oldest_pending_at=None,
)
NOTHING_APPLIED: dict[str, Any] = {
    "state": MirrorState.BEHIND,
    "version": None,
    "file_number": 0,
    "pending_files": 1,
    "committed_at": None,
    "oldest_pending_at": NOON,
}
STOPPED: dict[str, Any] = {
    "state": MirrorState.STOPPED,
    "pending_files": 1,
    "last_file": 2,
    "code": "schema_merge_failure",
    "detail": "file 2, column total: SchemaMergeFailure",
    "remedy": "Replace the file.",
}


def report_of(engine: sa.Engine, registered: Table, **fields: Any) -> TableReport:
    """Return a report about a table's present generation; without fields, its first file is applied."""
    owner = FolderOwner(str(sql.call(engine, installation_id)), registered.generation)
    return replace(IN_STEP, **{"table": str(registered.name), "owner": owner} | fields)
