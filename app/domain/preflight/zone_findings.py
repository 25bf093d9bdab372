"""Judges landing zones: what a store must be able to do, and what follows if it cannot."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from app.domain.preflight.finding import Finding, Outcome, judged
from app.errors.codes import Code


class ZoneCheck(StrEnum):
    """One check of a landing zone."""

    WRITE = "zone_write"
    LIST = "zone_list_after_write"
    RENAME = "zone_rename_keeps_existing"
    REVOCATION = "zone_revocation"
    FOLDER_RENAME = "zone_folder_rename"
    RECURSIVE_DELETE = "zone_recursive_delete"
    RENAME_CONDITION = "zone_rename_condition"
    SOURCE_ETAG = "zone_source_etag"
    CONDITIONAL_DELETE = "zone_conditional_delete"
    CLEAN_UP = "zone_clean_up"
    EXECUTOR_WRITES = "zone_executor_writes"
    OWNER = "zone_owner"
    KNOWN = "zone_known"


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of one try: nothing bad, or what happened instead."""

    check: ZoneCheck
    instead: str | None = None


@dataclass(frozen=True, slots=True)
class _Rule:
    outcome: Outcome
    good: str
    remedy: str


_OTHER_STORE: Final = "Use a store that does: a local or POSIX-compliant folder, ADLS Gen2 or OneLake."

_RULES: Final = {
    ZoneCheck.WRITE: _Rule(
        Outcome.UNSAFE,
        "a written file reads back unchanged",
        "Check the address, the credential, its right to write, and free space.",
    ),
    ZoneCheck.LIST: _Rule(
        Outcome.WARNING,
        "a listing shows what was written before it",
        "No action is needed: decisions are made path by path; only take-overs are slower.",
    ),
    ZoneCheck.RENAME: _Rule(Outcome.UNSAFE, "a rename does not replace an existing file", _OTHER_STORE),
    ZoneCheck.REVOCATION: _Rule(
        Outcome.UNSAFE,
        "nothing can be created below a folder that became a file",
        _OTHER_STORE,
    ),
    ZoneCheck.FOLDER_RENAME: _Rule(
        Outcome.WARNING,
        "a folder is renamed in one step",
        "No action is needed: table folders are filled file by file, and one that a crash leaves half filled is "
        "quarantined.",
    ),
    ZoneCheck.RECURSIVE_DELETE: _Rule(
        Outcome.UNSAFE,
        "a folder is deleted with its contents",
        "Give the credential the right to delete; without it no table can be dropped or taken over.",
    ),
    ZoneCheck.RENAME_CONDITION: _Rule(
        Outcome.WARNING,
        "the service itself rejects a rename onto an existing file",
        "Let nothing else write into the landing zone: the drain checks the new name before each rename, which "
        "protects because one worker owns a table.",
    ),
    ZoneCheck.SOURCE_ETAG: _Rule(
        Outcome.UNSAFE, "a rename whose source has changed is rejected", "Use a service that obeys conditions on ETags."
    ),
    ZoneCheck.CONDITIONAL_DELETE: _Rule(
        Outcome.UNSAFE,
        "a delete of a changed file is rejected",
        "Use a service that obeys conditions on ETags.",
    ),
    ZoneCheck.CLEAN_UP: _Rule(
        Outcome.WARNING, "the check left nothing behind", "Delete the folders `_scratchPad/probe-*`."
    ),
    ZoneCheck.EXECUTOR_WRITES: _Rule(
        Outcome.UNSAFE,
        "what each executor wrote is seen by the driver",
        "Let driver and executors reach the same landing zone under the same address.",
    ),
    ZoneCheck.OWNER: _Rule(Outcome.UNSAFE, "no other gateway has the landing zone", Code.LANDING_ZONE_TAKEN.remedy),
    ZoneCheck.KNOWN: _Rule(
        Outcome.UNSAFE,
        "it is the landing zone that the database publishes into",
        Code.LANDING_ZONE_CHANGED.remedy,
    ),
}


def judge_zone(seen: Iterable[Seen]) -> list[Finding]:
    """Return the results of checks as findings, in the same order."""
    return [judge_seen(one) for one in seen]


def judge_seen(seen: Seen) -> Finding:
    """Return the result of one check as a finding."""
    rule = _RULES[seen.check]
    return judged(seen.check, rule.outcome, good=rule.good, bad=seen.instead, remedy=rule.remedy)
