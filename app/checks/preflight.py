"""Preflight checks: whether the landing zone, Postgres and this machine make publication safe.

`app.landing` and `app.staging` gather the facts, `app.domain.preflight` judges them, and this module combines both.
"""

import shutil
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import structlog

from app.checks.landing_zone import check_zone_owner
from app.domain.access.mask_secret import MaskSecret
from app.domain.preflight import (
    Finding,
    Outcome,
    ZoneCheck,
    judge_clock,
    judge_database,
    judge_descriptor_limit,
    judge_masks,
    judge_memory,
    judge_space,
    judge_variables,
    judge_versions,
    judge_zone,
    unsafe_among,
)
from app.landing.open_zone import ZoneAddress, open_zone
from app.landing.probe import probe_zone
from app.observability.resource_watch import memory_limit, raise_descriptor_limit
from app.settings import Settings, unknown_variables
from app.staging.access.mask_secrets import hashed_tables
from app.staging.connection.database import Engine, disposed, open_engine, translated_errors
from app.staging.connection.schema_revision import database_facts
from mirrorgate.errors import Code, MirrorgateError, Misconfigured

log = structlog.get_logger()

PACKAGES: Final = (
    "mirrorgate",
    "pyarrow",
    "pyspark",
    "psycopg",
    "sqlalchemy",
    "azure-storage-file-datalake",
    "azure-identity",
)

_ALWAYS_REJECTED: Final[Mapping[str, Code]] = {
    ZoneCheck.OWNER: Code.LANDING_ZONE_TAKEN,
    ZoneCheck.KNOWN: Code.LANDING_ZONE_CHANGED,
}


def examine(
    address: ZoneAddress | None,
    database_url: str | None,
    environment: Mapping[str, str],
    *,
    data_dir: Path | None = None,
    mask_secret: MaskSecret | None = None,
    is_api: bool = False,
) -> list[Finding]:
    """Run every check on what is given and on this machine; return the findings.

    `is_api` tells that this is an API process, which needs the mask secret of the tables.
    """
    findings = judge_variables(unknown_variables(environment))
    findings.append(judge_versions(installed_versions()))
    if database_url is not None:
        findings += _database(database_url, mask_secret, is_api=is_api)
    if address is not None:
        owner = [] if database_url is None else _owner(address, database_url)
        # Nothing is tried, hence nothing created, in the zone of another gateway or where the database's zone is not.
        findings += [*owner, *([] if unsafe_among(owner) else _zone(address))]
    if data_dir is not None:
        findings.append(judge_space("data_directory_space", str(data_dir), shutil.disk_usage(data_dir).free))
    return findings


def examine_machine(settings: Settings) -> list[Finding]:
    """Check whether this machine allows an API process the files and the memory that its settings need."""
    limit = raise_descriptor_limit()
    memory = judge_memory(memory_limit(), settings.bytes_in_memory, settings.max_body_bytes)
    return [judge_descriptor_limit(limit), memory]


def require_safe(findings: list[Finding], *, allow_unsafe: bool) -> None:
    """Log each warning; raise Misconfigured `unsafe_setup` for unsafe findings, or with `allow_unsafe` log errors.

    Raise Misconfigured in any case for the landing zone of another gateway (`landing_zone_taken`), and for another
    zone than the database's (`landing_zone_changed`).
    """
    unsafe = unsafe_among(findings)
    for finding in findings:
        if finding.outcome is Outcome.WARNING:
            log.warning("start_check", check=finding.check, detail=finding.detail, remedy=finding.remedy)
    for finding in unsafe:
        if (code := _ALWAYS_REJECTED.get(finding.check)) is not None:
            raise Misconfigured(code, finding.detail, remedy=finding.remedy)
    if unsafe and not allow_unsafe:
        remedies = dict.fromkeys(str(finding.remedy) for finding in unsafe)
        raise Misconfigured(
            Code.UNSAFE_SETUP,
            "; ".join(f"{finding.check}: {finding.detail}" for finding in unsafe),
            remedy=" ".join([*remedies, "MIRRORGATE_ALLOW_UNSAFE=true starts anyway, at the data's risk."]),
        )
    for finding in unsafe:
        log.error("unsafe_setup_allowed", check=finding.check, detail=finding.detail, remedy=finding.remedy)


def installed_versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages that matter."""
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def not_examined(address: ZoneAddress | None, database_url: str | None) -> list[Finding]:
    """Return a warning for each of the two that is not given."""
    findings = []
    if database_url is None:
        findings.append(_missing("postgres", "MIRRORGATE_DATABASE_URL is not set", "Set it."))
    if address is None:
        findings.append(_missing("landing_zone", "MIRRORGATE_LANDING_ZONE is not set", "Set it, or --landing-zone."))
    return findings


def _database(database_url: str, mask_secret: MaskSecret | None, *, is_api: bool) -> list[Finding]:
    def ask() -> list[Finding]:
        with disposed(open_engine(database_url, pool_size=1, application="mirrorgate doctor")) as engine:
            facts = database_facts(engine)
            masks = _masks(engine, mask_secret, is_api=is_api) if facts.revision_fits else []
        clock = judge_clock("postgres_clock", facts.clock_behind_seconds, "that of Postgres")
        return [*judge_database(facts), clock, *masks]

    return _or_unsafe("postgres", ask, "Check that Postgres runs and that MIRRORGATE_DATABASE_URL is its address.")


def _masks(engine: Engine, secret: MaskSecret | None, *, is_api: bool) -> list[Finding]:
    """Compare the secret of hashed columns with the tables; without one, only in an API process, which needs it."""
    with translated_errors(), engine.begin() as connection:
        found = hashed_tables(connection)
    if not found.by_name:
        return []
    return [judge_masks(found.trouble(secret) if is_api or secret is not None else None)]


def _zone(address: ZoneAddress) -> list[Finding]:
    def ask() -> list[Finding]:
        findings = judge_zone(probe_zone(open_zone(address)))
        if not address.is_remote:
            findings.append(judge_space("zone_space", address.location, shutil.disk_usage(address.location).free))
        return findings

    return _or_unsafe("landing_zone", ask, "Check the landing zone's address, its owner and its rights.")


def _owner(address: ZoneAddress, database_url: str) -> list[Finding]:
    """Check whether the database and the landing zone belong together.

    Return nothing if one of them does not answer: its own findings report that.
    """
    with disposed(open_engine(database_url, pool_size=1, application="mirrorgate doctor")) as engine:
        try:
            return judge_zone(check_zone_owner(engine, address))
        except MirrorgateError as error:
            taken = error.code is Code.LANDING_ZONE_TAKEN
            return [Finding(ZoneCheck.OWNER, Outcome.UNSAFE, error.detail, error.remedy)] if taken else []
        except OSError:
            return []


def _or_unsafe(check: str, ask: Callable[[], list[Finding]], remedy: str) -> list[Finding]:
    """Return the findings of `ask`, or one unsafe finding with the reason why it failed."""
    try:
        return ask()
    except MirrorgateError as error:
        own = remedy if error.code is Code.DATABASE_UNAVAILABLE else error.remedy
        cause = str(error.__cause__ or "").strip().splitlines()[:1]
        return [Finding(check, Outcome.UNSAFE, ": ".join([error.detail, *cause]), own)]
    except OSError as error:
        return [Finding(check, Outcome.UNSAFE, f"it cannot be used: {error}", remedy)]


def _missing(check: str, why: str, remedy: str) -> Finding:
    return Finding(check, Outcome.WARNING, f"not examined: {why}", remedy)
