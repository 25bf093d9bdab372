"""What is wrong with a gateway is judged once: its order, its words, and the same severity for Prometheus."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from app.domain.fabric import MAX_STATUS_AGE_SECONDS, FabricFacts
from app.domain.health.facts import GatewayFacts, HealthFacts, ProcessFacts, TableSummary
from app.domain.health.troubles import (
    CLOCKS_APART,
    FAILURE_COUNTS_SECONDS,
    NEAR_LIMIT,
    OK,
    Trouble,
    parts,
    process_parts,
    troubles,
)
from app.domain.preflight import judge_durability, judge_space
from app.staging.ledger.failures import FAILING_AFTER
from tests.support.expositions import alert_rules

NOW = datetime(2026, 1, 1, 12, 30, 20, tzinfo=UTC)
PLAIN: dict[str, Any] = dict.fromkeys(TableSummary._fields[:19]) | {
    "table_id": 1, "name": "a.b", "generation": 1, "state": "active", "accepted_rows": 0, "pending_rows": 0,
    "oldest_seconds": 0.0, "waiting_letters": 0,
}  # fmt: skip
WELL = GatewayFacts(1, 0, None, {"active": 1}, None, 0, 0, 0, 0.0, 0.0)
RUNNING = FabricFacts("Running", None, 1.0, None, None, None)
FAILING = {"failure_code": "disk_full", "failure_detail": "no space", "failure_remedy": "Free it.", "failure_tries": 4}


def summary(**values: Any) -> TableSummary:
    return TableSummary(**(PLAIN | values))


def only(facts: HealthFacts) -> Trouble:
    [found] = troubles(facts)
    return found


def test_what_stops_data_comes_first_and_then_what_is_about_the_whole_gateway() -> None:
    seen = [
        summary(name="letters", waiting_letters=3),
        summary(name="paused", state="paused", pending_rows=7),
        summary(name="failing", **FAILING),
        summary(name="near", table_id=9),
        summary(name="gone", state="quarantined", state_reason="landing_folder_lost: gone"),
        summary(name="fabric", fabric_error="user error"),
    ]
    facts = HealthFacts(
        gateway=replace(WELL, drains=0),
        tables=seen,
        shares={seen[3].life: 0.9},
        findings=tuple(judge_durability("off", "on", "on")),
    )
    found = troubles(facts)
    assert [(trouble.severity, trouble.subject) for trouble in found] == [
        ("critical", "drain"),
        ("critical", "postgres fsync"),
        ("critical", "gone"),
        ("critical", "failing"),
        ("critical", "fabric"),
        ("warning", "near"),
        ("warning", "letters"),
        ("warning", "paused"),
    ]
    assert all(trouble.title and trouble.detail and trouble.remedy for trouble in found)


def test_nothing_is_wrong_with_a_gateway_that_is_well() -> None:
    findings = tuple(judge_durability("on", "on", "on"))
    facts = HealthFacts(ProcessFacts(), WELL, [summary()], {(1, 1): 0.1}, 0.1, findings)  # type: ignore[dict-item]  # plain ids
    assert troubles(facts) == ()
    assert set(parts(facts).values()) == {OK}


def test_a_quarantine_says_why_since_when_and_which_command_releases_the_table() -> None:
    found = only(HealthFacts(tables=[summary(state="quarantined", state_reason="foreign_file: f", quarantined_at=NOW)]))
    assert (found.code, found.detail, found.since) == ("foreign_file", "foreign_file: f", NOW)
    assert "docs/operations.md#after-a-foreign-file" in found.remedy
    assert "`mirrorgate tables release a.b --generation 1 --reason …`" in found.remedy


def test_a_backlog_is_one_trouble_that_gets_another_code_when_it_is_full() -> None:
    near, full = (only(HealthFacts(total_share=share)) for share in (NEAR_LIMIT, 1.0))
    assert (near.code, near.severity, full.code, full.severity) == (
        "backlog_near_limit",
        "warning",
        "backlog_full",
        "critical",
    )
    assert near.key == full.key
    assert parts(HealthFacts(total_share=1.0))["backlog"].startswith("a backlog is full")


def test_accepted_rows_that_are_not_staged_and_a_mirror_that_waits_are_troubles_of_a_whole_status() -> None:
    table = summary(
        accepted_rows=1_234_567, staged_rows=1, mirror_code="landing_file_gap", mirror_state="waiting", mirror_file=7,
        mirror_detail="waits for file 8", mirror_remedy="Publish it.",
    )  # fmt: skip
    assert [(one.kind, one.detail) for one in troubles(HealthFacts(tables=[table]))] == [
        ("not_staged", "1 of 1,234,567 accepted rows are staged."),
        ("mirror", "waiting at file 7: landing_file_gap: waits for file 8"),
    ]


def test_parts_that_only_postgres_knows_are_unknown_and_no_troubles_while_it_is_away() -> None:
    facts = HealthFacts(ProcessFacts(database="connection refused"))
    assert parts(facts)["drain"] == "unknown while the database is unavailable"
    assert only(facts).subject == "database"


@pytest.mark.parametrize(
    ("failure", "failed_seconds", "oldest_seconds", "is_ok"),
    [
        (None, None, None, True),
        (None, 3.0, 0.1, True),
        ("no space", 3.0, None, False),
        ("no space", FAILURE_COUNTS_SECONDS + 1, None, True),
        (None, None, 6.0, False),
    ],
)
def test_a_writer_is_judged_by_its_last_transaction_and_its_oldest_request(
    failure: str | None, failed_seconds: float | None, oldest_seconds: float | None, is_ok: bool
) -> None:
    facts = ProcessFacts(
        writer_failure=failure,
        writer_failed_seconds=failed_seconds,
        oldest_request_seconds=oldest_seconds,
        oldest_request_limit=5.0,
    )
    assert (process_parts(facts)["writer"] == OK) is is_ok


@pytest.mark.parametrize(
    ("facts", "alert"),
    [
        (HealthFacts(tables=[summary(state="quarantined")]), "TableQuarantined"),
        (HealthFacts(tables=[summary(**FAILING)]), "TableFailing"),
        (HealthFacts(total_share=NEAR_LIMIT), "BacklogNearlyFull"),
        (HealthFacts(total_share=1.0), "BacklogFull"),
        (HealthFacts(tables=[summary(waiting_letters=1)]), "DeadLettersWaiting"),
        (HealthFacts(tables=[summary(fabric_error="it failed")]), "FabricTableFailed"),
        (HealthFacts(tables=[summary(mirror_code="landing_file_gap")]), "MirrorStopped"),
        (HealthFacts(gateway=replace(WELL, stopped_mirrors=1)), "MirrorStopped"),
        (HealthFacts(gateway=replace(WELL, drains=0)), "NoDrain"),
        (HealthFacts(gateway=replace(WELL, waiting_drains=1, waits_for="storage_failed")), "DrainWaiting"),
        (HealthFacts(gateway=replace(WELL, clock_behind_seconds=CLOCKS_APART + 1)), "ClockOff"),
        (HealthFacts(gateway=replace(WELL, future_batches=1)), "ClockOff"),
        (HealthFacts(gateway=replace(WELL, fabric=replace(RUNNING, state="Paused"))), "FabricPaused"),
        (HealthFacts(gateway=replace(WELL, fabric=replace(RUNNING, state="Failed"))), "FabricDatabaseFailed"),
        (HealthFacts(gateway=replace(WELL, fabric=replace(RUNNING, answer_seconds=901.0))), "FabricStatusStale"),
        (HealthFacts(ProcessFacts(database="connection refused")), "DatabaseAway"),
        (HealthFacts(ProcessFacts(writer_failure="no space", writer_failed_seconds=1.0)), "ApiNotWriting"),
        (HealthFacts(findings=(judge_space("disk_space", "/zone", 1, min_free=2**30),)), "ResourceLow"),
    ],
)
def test_prometheus_has_an_alert_of_the_same_severity(facts: HealthFacts, alert: str) -> None:
    [labels] = [rule["labels"] for rule in alert_rules() if rule["alert"] == f"Mirrorgate{alert}"]
    assert labels == {"severity": only(facts).severity.value}


@pytest.mark.parametrize(
    ("alert", "pattern", "limit"),
    [
        ("BacklogNearlyFull", r"> ([\d.]+) < 1$", NEAR_LIMIT),
        ("ClockOff", r"_clock_behind_seconds\) > (\d+)", CLOCKS_APART),
        ("FabricStatusStale", r"> (\d+)$", MAX_STATUS_AGE_SECONDS),
    ],
)
def test_prometheus_has_the_same_limits(alert: str, pattern: str, limit: float) -> None:
    [rule] = [rule for rule in alert_rules() if rule["alert"] == f"Mirrorgate{alert}"]
    found = re.search(pattern, str(rule["expr"]))
    assert found is not None
    assert float(found[1]) == limit


def test_prometheus_says_after_how_many_tries_a_table_fails() -> None:
    [rule] = [rule for rule in alert_rules() if rule["alert"] == "MirrorgateTableFailing"]
    assert FAILING_AFTER == 3
    assert "At least three publications in a row" in str(rule["annotations"])
