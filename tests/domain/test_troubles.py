"""What counts as wrong, and which alerts are told of it."""

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.fabric import MAX_STATUS_AGE_SECONDS, FabricFacts
from app.domain.health.facts import GatewayFacts, HealthFacts, ProcessFacts, TableSummary
from app.domain.health.troubles import (
    CLOCKS_APART,
    FAILURE_COUNTS_SECONDS,
    MAX_TOLD,
    NEAR_LIMIT,
    OK,
    SOURCE_LAG_SECONDS,
    AlertPlan,
    KnownAlert,
    Severity,
    Trouble,
    TroubleKind,
    message_of,
    parts,
    plan_alerts,
    process_parts,
    troubles,
)
from app.domain.preflight import judge_durability, judge_space
from app.staging.ledger.reports import FAILING_AFTER
from mirrorgate.errors.codes import Code
from mirrorgate.errors.site import with_addresses
from tests.support.expositions import alert_rules

NOW = datetime(2026, 1, 1, 12, 30, 20, tzinfo=UTC)
PLAIN: dict[str, Any] = dict.fromkeys(TableSummary._fields[:21]) | {
    "table_id": 1, "name": "a.b", "generation": 1, "state": "active", "accepted_rows": 0, "pending_rows": 0,
    "oldest_seconds": 0.0, "waiting_letters": 0, "missing_changes": 0,
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
    assert with_addresses("docs/troubleshoot/quarantined.md#foreign_file") in found.remedy
    assert "`mirrorgate tables release a.b --generation 1 --reason …`" in found.remedy


def test_no_remedy_releases_a_table_whose_ledger_lacks_files_that_fabric_has() -> None:
    found = only(HealthFacts(tables=[summary(state="quarantined", state_reason="ledger_behind_zone: 3")]))
    assert found.remedy == Code.LEDGER_BEHIND_ZONE.remedy
    assert "tables release" not in found.remedy


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
        (HealthFacts(tables=[summary(missing_changes=1)]), "ChangesMissing"),
        (HealthFacts(tables=[summary(source_lag_seconds=SOURCE_LAG_SECONDS + 1)]), "SourceLag"),
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
        ("SourceLag", r"> (\d+)$", SOURCE_LAG_SECONDS),
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


START = datetime(2026, 1, 1, tzinfo=UTC)
QUARANTINED = Trouble(
    TroubleKind.TABLE_QUARANTINED, "s.a", Severity.CRITICAL, "foreign_file", "A file is foreign.", "Move it."
)
LETTERS = Trouble(
    TroubleKind.DEAD_LETTERS, "s.a", Severity.WARNING, "dead_letters_waiting", "They wait.", "Replay them."
)


class Memory:
    """What a gateway stores between two looks."""

    def __init__(self, after_seconds: float = 60.0) -> None:
        self.known: dict[str, KnownAlert] = {}
        self.after_seconds = after_seconds

    def look(self, seconds: float, found: Iterable[Trouble], *, is_taken: bool = True) -> AlertPlan:
        now = START + timedelta(seconds=seconds)
        plan = plan_alerts(self.known, found, now, after_seconds=self.after_seconds)
        self.known |= {known.alert.key: known for known in (*plan.begun, *plan.changed)}
        for key in plan.forgotten:
            del self.known[key]
        if is_taken:
            self.known |= {known.alert.key: replace(known, told_code=known.alert.code) for known in plan.firing}
            for known in plan.resolved:
                del self.known[known.alert.key]
        return plan


def told(plan: AlertPlan) -> tuple[list[str], list[str]]:
    return [known.alert.code for known in plan.firing], [known.alert.code for known in plan.resolved]


OTHER_TEXT = replace(QUARANTINED, detail="Two files are foreign.")
OTHER_CAUSE = replace(QUARANTINED, code="landing_folder_lost")


@pytest.mark.parametrize(
    ("after_seconds", "looks", "messages"),
    [
        (60, [(0, QUARANTINED), (59, QUARANTINED), (60, QUARANTINED), (70, QUARANTINED)], {60: "foreign_file"}),
        (60, [(0, QUARANTINED), (60, QUARANTINED), (80, None), (90, None)], {60: "foreign_file", 80: "over"}),
        (60, [(0, QUARANTINED), (30, None)], {}),
        (0, [(0, QUARANTINED), (10, OTHER_TEXT)], {0: "foreign_file"}),
        (0, [(0, QUARANTINED), (20, OTHER_CAUSE)], {0: "foreign_file", 20: "landing_folder_lost"}),
        (
            60,
            [(0, QUARANTINED), (60, QUARANTINED), (70, OTHER_CAUSE), (80, QUARANTINED)]
            + [(seconds, OTHER_CAUSE) for seconds in (90, 140, 150)],
            {60: "foreign_file", 150: "landing_folder_lost"},
        ),
        (60, [(0, QUARANTINED), (60, OTHER_CAUSE)], {60: "landing_folder_lost"}),
        (60, [(0, QUARANTINED), (-3600, QUARANTINED), (-3590, QUARANTINED)], {-3600: "foreign_file"}),
    ],
    ids=[
        "once it lasts",
        "once when it is over",
        "never if it ends before",
        "not because of another text",
        "because of another cause",
        "because of another cause only once that lasts",
        "without delay if the cause changes before",
        "without delay if the clock is set back",
    ],
)
def test_an_alert_is_told(
    after_seconds: float, looks: list[tuple[float, Trouble | None]], messages: dict[float, str]
) -> None:
    memory, found = Memory(after_seconds), dict[float, str]()
    for seconds, trouble in looks:
        firing, resolved = told(memory.look(seconds, [trouble] if trouble else []))
        found |= [(seconds, code) for code in firing] + [(seconds, "over") for _ in resolved]
    assert found == messages
    assert bool(memory.known) is (looks[-1][1] is not None)


def test_a_message_that_is_not_taken_is_sent_again() -> None:
    memory = Memory(after_seconds=0)
    for seconds in range(3):
        assert told(memory.look(seconds, [QUARANTINED], is_taken=False)) == (["foreign_file"], [])
    memory.look(3, [QUARANTINED])
    assert told(memory.look(4, [], is_taken=False)) == ([], ["foreign_file"])
    assert told(memory.look(5, [])) == ([], ["foreign_file"])


def test_a_message_lists_a_bounded_number_and_the_next_one_the_others() -> None:
    memory = Memory(after_seconds=0)
    many = [replace(LETTERS, subject=f"s.t{number:03d}") for number in range(MAX_TOLD + 20)]
    first, second = memory.look(0, [*many, QUARANTINED]), memory.look(1, [*many, QUARANTINED])
    assert first.firing[0].alert == QUARANTINED
    assert (len(first.firing), len(second.firing)) == (MAX_TOLD, 21)


def test_a_message_tells_what_why_and_what_to_do_in_words_and_in_members() -> None:
    plan = Memory(after_seconds=0).look(0, [QUARANTINED])
    message = message_of(plan, gateway="g", now=START)
    assert message["text"] == "CRITICAL: s.a (table_quarantined, foreign_file). A file is foreign. Move it."
    assert message["alerts"] == [
        {
            "id": "table_quarantined:s.a@2026-01-01T00:00:00+00:00",
            "status": "firing",
            "kind": "table_quarantined",
            "subject": "s.a",
            "severity": "critical",
            "code": "foreign_file",
            "detail": "A file is foreign.",
            "remedy": "Move it.",
            "since": "2026-01-01T00:00:00+00:00",
        }
    ]


@given(st.lists(st.tuples(st.sets(st.sampled_from([QUARANTINED, LETTERS])), st.booleans()), max_size=30))
def test_every_alert_that_was_told_is_told_to_be_over_exactly_once(history: list[tuple[set[Trouble], bool]]) -> None:
    memory, balance = Memory(after_seconds=1), dict.fromkeys((QUARANTINED.key, LETTERS.key), 0)
    for seconds, (found, is_taken) in enumerate([*history, (set(), True)]):
        plan = memory.look(seconds, found, is_taken=is_taken)
        if is_taken:
            for known in plan.firing:
                balance[known.alert.key] += 1
            for known in plan.resolved:
                balance[known.alert.key] -= 1
        assert set(balance.values()) <= {0, 1}
    assert set(balance.values()) == {0}
    assert not memory.known
