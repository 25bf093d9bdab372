"""Errors that pass: the gateway is busy, stopping, or waits for Postgres or for its drain."""

from collections.abc import Mapping
from typing import Final

from app.errors.catalogue.entry import RETRY, Entry
from app.errors.codes import Code, Kind

AVAILABILITY: Final[Mapping[Code, Entry]] = {
    Code.BACKLOG_FULL: Entry(
        Kind.TOO_MUCH,
        "The backlog of unpublished changes has reached a MIRRORGATE_MAX_BACKLOG_… limit. Nothing was staged.",
        f"{RETRY} If the error persists, check the drain and the table's state: a paused or quarantined table accepts "
        "changes only until its backlog is full.",
    ),
    Code.OVERLOADED: Entry(
        Kind.UNAVAILABLE,
        "This API process has reached its limit of concurrent requests or of bytes in memory. Nothing was staged.",
        RETRY,
    ),
    Code.DATABASE_UNAVAILABLE: Entry(
        Kind.UNAVAILABLE, "Postgres does not answer, or does not accept writes. Nothing was staged.", RETRY
    ),
    Code.COMMIT_UNKNOWN: Entry(
        Kind.UNAVAILABLE,
        "The connection to Postgres was lost during COMMIT, or the API process stopped. The request may be durable.",
        "Send the request again under the same idempotency key or producer number. Without one, compare last_sequence "
        "in the table's status first.",
    ),
    Code.TABLE_BUSY: Entry(
        Kind.UNAVAILABLE, "The request did not get the table's sequence lock in time. Nothing was staged.", RETRY
    ),
    Code.TABLE_TOO_NEW: Entry(
        Kind.UNAVAILABLE,
        "A newer version of Mirrorgate has set an option, a value or a column type of the table that this process does "
        "not know. Nothing was staged.",
        "Replace the processes of the older version. Clients repeat the request and reach a newer process.",
    ),
    Code.MASK_SECRET_MISSING: Entry(
        Kind.UNAVAILABLE,
        "A column of the table is masked by a hash, and this API process has no secret for it. Nothing was staged.",
        "Set MIRRORGATE_MASK_SECRET to the same value for all API processes, and start them again.",
    ),
    Code.MASK_SECRET_DIFFERS: Entry(
        Kind.UNAVAILABLE,
        "The table is hashed under another secret than the MIRRORGATE_MASK_SECRET of this API process, or another "
        "process has declared the gateway's first hashed column under another one. Nothing was staged.",
        "Set MIRRORGATE_MASK_SECRET to the same value for all API processes, and start them again. If you changed it "
        "deliberately, run `mirrorgate mask-secret change`, recreate the table and load it again (docs/operations.md).",
    ),
    Code.SHUTTING_DOWN: Entry(Kind.UNAVAILABLE, "This API process is shutting down.", RETRY),
    Code.NOT_READY: Entry(
        Kind.UNAVAILABLE, "A part of the gateway is not ready.", "See which part it is with GET /statusz."
    ),
    Code.ALERT_NOT_SENT: Entry(
        Kind.UNAVAILABLE,
        "The webhook of MIRRORGATE_ALERT_URL did not take a message.",
        "Check the address with `mirrorgate alerts test`; the gateway sends the alerts again.",
    ),
    Code.INTERNAL: Entry(
        Kind.BROKEN,
        "An unexpected error occurred in the gateway.",
        "Find the log line with the same request id. If the error persists, report it with that line.",
    ),
}
