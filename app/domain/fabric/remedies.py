"""What each state of a mirrored database means, and what to do about it.

Source: Microsoft Learn, "Monitor Fabric mirrored database replication" and "Troubleshoot Fabric mirrored databases".
docs/fabric.md has the same table.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from app.domain.fabric.states import DatabaseState, Whose
from app.domain.fabric.tables import TableMirroring


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a state means, and what to do; None: nothing."""

    meaning: str
    remedy: str | None = None


STATES: Final[Mapping[DatabaseState, Explanation]] = {
    DatabaseState.INITIALIZING: Explanation(
        "Fabric provisions the SQL endpoint; mirroring cannot start yet", "Wait some minutes."
    ),
    DatabaseState.INITIALIZED: Explanation(
        "the database is ready and mirroring has not started", "Run `mirrorgate fabric start`."
    ),
    DatabaseState.STARTING: Explanation("mirroring starts", "Wait some minutes."),
    DatabaseState.RUNNING: Explanation("Fabric reads the landing zone"),
    DatabaseState.RUNNING_WITH_WARNING: Explanation(
        "Fabric reads the landing zone, and at least one table has a problem",
        "Read the errors of the tables, and follow docs/fabric.md.",
    ),
    DatabaseState.STOPPING: Explanation("mirroring stops", "Wait some minutes."),
    DatabaseState.STOPPED: Explanation(
        "mirroring has been stopped; files in the landing zone wait",
        "Run `mirrorgate fabric start`. Fabric then reads every table from its first file, and files that it has "
        "purged since are missing: recreate tables older than 7 days and load them again.",
    ),
    DatabaseState.PAUSED: Explanation(
        "mirroring is paused: the capacity was paused, or a table had no data for about two weeks; files wait",
        "Resume the capacity, then select Resume replication on the database's page in the Fabric portal. Publish a "
        "file for every empty table (`seed_file=true`).",
    ),
    DatabaseState.FAILED: Explanation(
        "mirroring has failed",
        "Read the error. After correcting it, select Resume replication in the Fabric portal, or stop and start.",
    ),
    DatabaseState.UNKNOWN: Explanation(
        "Fabric names a state that this version of Mirrorgate does not know", "Look at the database in the portal."
    ),
}
"""Every state."""


def remedy_for(whose: Whose) -> str:
    """Return what to do about a table's fault, by who can correct it."""
    match whose:
        case "user":
            return "Correct what the error names; for a bad file, `mirrorgate tables repair` publishes it again."
        case "system":
            return "The fault is Fabric's: wait, then stop and start mirroring, or ask Microsoft's support."
    return "Look at the table in the portal (Monitor replication) for more than the API says."


def table_trouble(table: TableMirroring) -> str | None:
    """Return the state and the error of a table that has failed or has an error, None for one that has not."""
    if not table.has_failed and table.error is None:
        return None
    return f"{table.state}: {table.error}" if table.error else str(table.state)
