"""Errors of settings, installation and machine. They end a command, or keep a process from starting."""

from collections.abc import Mapping
from typing import Final

from app.errors.catalogue.entry import Entry
from app.errors.codes import Code, Kind

SETUP: Final[Mapping[Code, Entry]] = {
    Code.BAD_SETTING: Entry(
        Kind.MISCONFIGURED,
        "A setting is missing or not valid.",
        "Correct the variable that the message names. docs/settings.md describes every variable.",
    ),
    Code.SOURCE_AWAY: Entry(
        Kind.MISCONFIGURED,
        "`mirrorgate tables check` cannot read the source of a table.",
        "Check the address, the rights of its account, and the names of table and columns.",
    ),
    Code.SOURCE_AMBIGUOUS: Entry(
        Kind.MISCONFIGURED,
        "The source of a table has two rows with the same key, so its rows cannot be compared one by one.",
        "Compare with a relation in which the key columns of the table identify each row.",
    ),
    Code.PUBLIC_WITHOUT_KEY: Entry(
        Kind.MISCONFIGURED,
        "The API would listen beyond this machine, but no API key exists.",
        "Set MIRRORGATE_ADMIN_KEY, create a key first, or listen on 127.0.0.1.",
    ),
    Code.PUBLIC_WITHOUT_TLS: Entry(
        Kind.MISCONFIGURED,
        "The API would listen beyond this machine without TLS, so keys and changes could be read on the network.",
        "Set MIRRORGATE_TLS_CERTIFICATE_FILE and MIRRORGATE_TLS_KEY_FILE, or listen on 127.0.0.1. If a proxy "
        "terminates TLS and is the only way to reach the API, set MIRRORGATE_BEHIND_TLS_PROXY=true.",
    ),
    Code.LANDING_ZONE_UNSUPPORTED: Entry(
        Kind.MISCONFIGURED,
        "The landing zone's address is not a folder, OneLake or ADLS Gen2.",
        "Use a folder, or an address in one of the forms in docs/operations.md.",
    ),
    Code.LANDING_ZONE_UNUSABLE: Entry(
        Kind.MISCONFIGURED,
        "The landing zone cannot be used.",
        "For a folder, check its owner. For OneLake or ADLS Gen2, check the address, the credential and its rights.",
    ),
    Code.LANDING_ZONE_TAKEN: Entry(
        Kind.MISCONFIGURED,
        "The landing zone belongs to another gateway, which has another database.",
        "Check MIRRORGATE_LANDING_ZONE and MIRRORGATE_DATABASE_URL: each gateway needs its own landing zone. To start "
        "over, use a new landing zone, or clear the one of a gateway that is gone for good (docs/operations.md).",
    ),
    Code.LANDING_ZONE_CHANGED: Entry(
        Kind.MISCONFIGURED,
        "The landing zone is not the one that the database publishes into.",
        "Set MIRRORGATE_LANDING_ZONE to the landing zone that the message names, or mount it. To publish into the "
        "other one from now on, run `mirrorgate landing-zone move` (docs/operations.md).",
    ),
    Code.UNSAFE_SETUP: Entry(
        Kind.MISCONFIGURED,
        "The landing zone, Postgres or this machine lacks a property without which changes could be lost, repeated or "
        "mixed up.",
        "Run `mirrorgate doctor` and follow its remedies. `MIRRORGATE_ALLOW_UNSAFE=true` starts anyway.",
    ),
    Code.POOLER_UNUSABLE: Entry(
        Kind.MISCONFIGURED,
        "A connection pooler in front of Postgres mixes the sessions of the gateway, or rejects their settings.",
        "Set MIRRORGATE_DATABASE_URL to the address of Postgres itself, or let the pooler serve the gateway's database "
        "in session mode: `pool_mode = session` in pgbouncer.ini.",
    ),
    Code.ALREADY_RUNNING: Entry(
        Kind.MISCONFIGURED,
        "Another gateway is running on this data directory.",
        "Stop it, or choose another --data-dir.",
    ),
    Code.DATABASE_NOT_MIGRATED: Entry(
        Kind.MISCONFIGURED,
        "The schema revision of the database does not fit this program version.",
        "Run `mirrorgate migrate` of the newest version. If the database is too new, install a newer version.",
    ),
    Code.EXTRA_MISSING: Entry(
        Kind.MISCONFIGURED,
        "The command needs packages that are not installed.",
        "Install the extra of mirrorgate that the message names (docs/install.md).",
    ),
    Code.POSTGRES_MISSING: Entry(
        Kind.MISCONFIGURED,
        "No Postgres programs were found.",
        "Install the extra `mirrorgate[embedded]`, or set MIRRORGATE_DATABASE_URL.",
    ),
    Code.POSTGRES_FAILED: Entry(
        Kind.MISCONFIGURED, "The private Postgres did not start.", "Read postgres.log in the data directory."
    ),
    Code.JAVA_MISSING: Entry(
        Kind.MISCONFIGURED,
        "No Java 17 or newer was found.",
        "Install the extra `mirrorgate[embedded]`, which includes Java, or set JAVA_HOME.",
    ),
    Code.SPARK_FAILED: Entry(
        Kind.MISCONFIGURED,
        "Spark did not start or has ended, or its job failed or made no progress.",
        "Start `mirrorgate drain` and read its log. Check MIRRORGATE_SPARK_MASTER and the Java installation.",
    ),
}
