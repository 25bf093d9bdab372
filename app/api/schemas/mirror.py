"""How far tables are mirrored, and rows of a mirrored table."""

from datetime import datetime
from typing import Any, Self

from app.api.schemas.common import Model, Seconds
from app.domain.mirror.table_report import MirrorState
from app.staging.mirror.progress import MirrorProgress


class MirrorReasonModel(Model):
    """Why the mirror does not apply the next file of a table."""

    code: str
    """An error code of docs/errors.md."""

    detail: str | None
    """What is wrong, and in which file; without row values."""

    remedy: str | None
    """What an operator can do."""


class MirrorModel(Model):
    """How far the table is mirrored: the mirror's last report, compared with the landing ledger now."""

    state: MirrorState
    """`waiting`: a file number is missing. `stopped`: a file cannot be applied. `dropped`: the landing folder is gone.

    `in_step` and `behind` are normal.
    """

    version: int | None
    """The Delta version; null before the first one."""

    file_number: int
    """The last landing file that is applied; 0 before the first."""

    pending_files: int
    """Published landing files that are not applied."""

    lag_seconds: Seconds
    """The age of the oldest of them; 0 in step. It grows while no mirror runs."""

    reason: MirrorReasonModel | None
    """Why the table waits or is stopped; null otherwise."""

    updated_at: datetime
    """When the mirror last reported; at least every ten seconds while it runs."""

    @classmethod
    def of_progress(cls, progress: MirrorProgress, **more: Any) -> Self:
        """Return the model of this class, with the fields that a subclass has in addition."""
        reason = None if progress.code is None else MirrorReasonModel.of(progress)
        return cls.of(progress, reason=reason, **more)


class TableMirrorModel(MirrorModel):
    """How far the current generation of a table is mirrored."""

    table: str
    generation: int
    delta_generation: int
    """The generation of the Delta table as the mirror counts it: an earlier one is kept as `<table>@g<number>`."""

    published_file: int
    """The last landing file that the gateway has published; 0 before the first."""

    committed_at: datetime | None
    """The time of the Delta version; null before the first one."""


class MirrorColumnModel(Model):
    """A column of a mirrored table."""

    name: str
    type: str
    """The column type, as in a registration."""


class MirrorRowsModel(Model):
    """Rows of a mirrored table at one version, in no particular order.

    As in a dry run, decimals, dates and timestamps are texts, and binary is base64.
    """

    table: str
    version: int
    """The Delta version that was read."""

    columns: list[MirrorColumnModel]
    rows: list[dict[str, Any]]
    """The rows by column name."""

    has_more: bool
    """True if the version has rows that the answer omits, because of `limit` or the size of the answer."""
