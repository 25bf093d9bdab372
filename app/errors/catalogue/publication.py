"""Errors of the drain. They appear in its log and in the state reason of a table that it stopped."""

from collections.abc import Mapping
from typing import Final

from app.errors.catalogue.entry import Entry
from app.errors.codes import Code, Kind

PUBLICATION: Final[Mapping[Code, Entry]] = {
    Code.LANDING_ZONE_AWAY: Entry(
        Kind.UNAVAILABLE,
        "The landing zone disappeared while the drain was running: it is not mounted, not reachable, or replaced by "
        "another one.",
        "Mount the landing zone again. The drain then continues without a restart.",
    ),
    Code.SPARK_WITHOUT_EXECUTORS: Entry(
        Kind.UNAVAILABLE,
        "The Spark cluster has no executor for the drain or the mirror, so nothing is built.",
        "Look at the master's page or log. A worker needs as many free cores and as much free memory as an executor "
        "takes (spark.executor.cores, spark.executor.memory and its overhead). After a restart of the master, restart "
        "the drain: a standalone master forgets its applications.",
    ),
    Code.STORAGE_FAILED: Entry(
        Kind.BROKEN,
        "The drain could not read or write the landing zone.",
        "The detail has the answer of the operating system or storage service. The drain tries the table again.",
    ),
    Code.STORAGE_CREDENTIAL: Entry(
        Kind.UNAVAILABLE,
        "The landing zone's storage service rejects the drain's credential, or none can be had (401, AADSTS…).",
        "Renew the secret or certificate of the service principal and start the drain with it again, or repair the "
        "managed identity. The detail has the service's answer.",
    ),
    Code.STORAGE_FORBIDDEN: Entry(
        Kind.UNAVAILABLE,
        "The storage service knows the drain's identity and denies it the landing zone (403).",
        "Give the identity the right to read, write and delete there: the role Contributor in Fabric's workspace, or "
        "Storage Blob Data Contributor of the account; check the storage's firewall. The drain then continues.",
    ),
    Code.STORAGE_NOT_FOUND: Entry(
        Kind.UNAVAILABLE,
        "The storage service does not know the account, workspace or item of the landing zone (404).",
        "Compare MIRRORGATE_LANDING_ZONE with the address that Fabric shows: the mirrored database may have been "
        "deleted or moved. If it is back under the same address, the drain continues.",
    ),
    Code.STORAGE_THROTTLED: Entry(
        Kind.UNAVAILABLE,
        "The storage service limits the rate of requests (429), and did so for longer than a call is repeated.",
        "Nothing at once: the drain continues by itself. If it lasts, raise the capacity, or publish fewer and larger "
        "files: raise MIRRORGATE_MAX_DELAY_SECONDS.",
    ),
    Code.STORAGE_UNAVAILABLE: Entry(
        Kind.UNAVAILABLE,
        "The storage service did not answer, or answered with an error of its own, for longer than a call is repeated.",
        "Nothing at once: the drain continues when the service is back. If it lasts, check its health page, the "
        "network and its proxy or firewall.",
    ),
    Code.STALE_EPOCH: Entry(
        Kind.BROKEN,
        "The drain's claim of the table is over: another drain has claimed it, or the database was restarted, restored "
        "or failed over.",
        "You need not do anything: the new owner, or this drain with a new claim, continues.",
    ),
    Code.FOREIGN_FILE: Entry(
        Kind.BROKEN,
        "A file that this gateway did not plan has the next file number.",
        "Find out who writes into the landing zone. If Fabric cannot have read it, move the file away and release "
        "the table; if it may have, rebuild or recreate the table instead (docs/operations.md#after-a-foreign-file).",
    ),
    Code.LANDING_FOLDER_LOST: Entry(
        Kind.BROKEN,
        "The table's landing folder is missing, or belongs to another generation or gateway.",
        "Restore the folder and release the table, rebuild it from its row images (`mirrorgate tables rebuild`), or "
        "recreate it and load it again (docs/operations.md).",
    ),
    Code.LEDGER_BEHIND_ZONE: Entry(
        Kind.BROKEN,
        "The landing zone has files of the table that the database does not know, because the database has gone back: "
        "it was restored to an earlier point, or a standby took over that lacked the last transactions.",
        "Do not move these files away. Fabric has, or will have, rows that the gateway no longer knows: rebuild it "
        "from its row images (`mirrorgate tables rebuild`) and send again what the database lost, or recreate it and "
        "load it again (docs/backup.md).",
    ),
    Code.PAYLOAD_CORRUPT: Entry(
        Kind.BROKEN,
        "A staged payload does not match its recorded digest.",
        "Check the database's storage, and restore the database from a backup.",
    ),
    Code.BUILD_FAILED: Entry(
        Kind.BROKEN,
        "The drain could not build a landing file.",
        "Read the drain's log. The drain tries the file again.",
    ),
    Code.BROKEN_CHAIN: Entry(
        Kind.BROKEN,
        "A table's metadata chain is not consistent.",
        "Compare the database with a backup: recorded metadata was changed.",
    ),
}
