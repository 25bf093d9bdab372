"""Judgements of preflight checks: what is unsafe, what is worth a warning, and what passes."""

from dataclasses import replace
from typing import Any

import pytest

from app.domain.preflight import (
    MIN_FREE_BYTES,
    DatabaseFacts,
    ExecutorFacts,
    Finding,
    Outcome,
    Seen,
    ZoneCheck,
    judge_clock,
    judge_database,
    judge_executors,
    judge_space,
    judge_variables,
    judge_zone,
    unsafe_among,
)

SAFE = DatabaseFacts(
    version=180_001,
    version_text="18.1",
    fsync="on",
    full_page_writes="on",
    synchronous_commit="on",
    in_recovery=False,
    read_only="off",
    session_settings={"lock_timeout": ("2000", "2000")},
    heard_itself=True,
    through_pooler=False,
    revision="r1",
    wanted_revision="r1",
    revision_fits=True,
    clock_behind_seconds=0.0,
)
DRIVER = {"python": "3.12.1", "pyarrow": "22.0.0", "sqlalchemy": "2.1.0"}
EXECUTOR = ExecutorFacts("worker-1", DRIVER, 0.0, None)


def wrong(findings: list[Finding]) -> dict[str, Outcome]:
    return {finding.check: finding.outcome for finding in findings if finding.outcome is not Outcome.OK}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"standbys": 2, "synchronous_standby_names": "ANY 1 (a, b)"},
        {"synchronous_commit": "local"},
        {"synchronous_commit": "remote_write"},
        {"synchronous_commit": "remote_apply"},
    ],
)
def test_safe_defaults_and_every_commit_that_waits_for_the_disk_or_a_standby_are_well(change: dict[str, Any]) -> None:
    assert wrong(judge_database(replace(SAFE, **change))) == {}


@pytest.mark.parametrize(
    ("change", "check", "outcome"),
    [
        ({"fsync": "off"}, "postgres_fsync", Outcome.UNSAFE),
        ({"full_page_writes": "off"}, "postgres_full_page_writes", Outcome.UNSAFE),
        ({"synchronous_commit": "off"}, "postgres_synchronous_commit", Outcome.UNSAFE),
        ({"version": 140_020}, "postgres_version", Outcome.UNSAFE),
        ({"in_recovery": True}, "postgres_primary", Outcome.UNSAFE),
        ({"read_only": "on"}, "postgres_primary", Outcome.UNSAFE),
        ({"revision": None, "revision_fits": False}, "postgres_revision", Outcome.UNSAFE),
        ({"heard_itself": False}, "postgres_listen", Outcome.WARNING),
        ({"standbys": 1}, "postgres_standbys", Outcome.WARNING),
        (
            {"standbys": 2, "synchronous_standby_names": "*", "synchronous_commit": "local"},
            "postgres_standbys",
            Outcome.WARNING,
        ),
        ({"session_settings": {"lock_timeout": ("2000", "0")}}, "postgres_session_settings", Outcome.WARNING),
    ],
)
def test_each_fault_of_a_server_is_found_alone(change: dict[str, object], check: str, outcome: Outcome) -> None:
    assert wrong(judge_database(replace(SAFE, **change))) == {check: outcome}  # type: ignore[arg-type]


def test_what_is_wrong_has_a_remedy_and_what_is_well_needs_none() -> None:
    bad = replace(SAFE, fsync="off", heard_itself=False)
    for finding in judge_database(bad):
        assert (finding.remedy is None) == (finding.outcome is Outcome.OK)


@pytest.mark.parametrize(
    ("check", "outcome"),
    [
        (check, Outcome.WARNING)
        if check in (ZoneCheck.LIST, ZoneCheck.FOLDER_RENAME, ZoneCheck.RENAME_CONDITION, ZoneCheck.CLEAN_UP)
        else (check, Outcome.UNSAFE)
        for check in ZoneCheck
    ],
)
def test_what_a_zone_cannot_do_is_unsafe_unless_the_drain_does_without(check: ZoneCheck, outcome: Outcome) -> None:
    good, bad = judge_zone([Seen(check), Seen(check, "it did something else")])
    assert (good.outcome, bad.outcome, bad.detail) == (Outcome.OK, outcome, "it did something else")


def test_clocks_that_are_apart_are_named_with_the_one_that_is_behind() -> None:
    assert judge_clock("clock", 4.9, "that of Postgres").outcome is Outcome.OK
    assert judge_clock("clock", 61.0, "that of Postgres").detail == (
        "this machine's clock is 61.0 s behind that of Postgres"
    )
    assert "ahead of" in judge_clock("clock", -61.0, "that of Postgres").detail


def test_a_disk_is_nearly_full_below_a_gibibyte() -> None:
    assert judge_space("space", "/x", MIN_FREE_BYTES).outcome is Outcome.OK
    assert judge_space("space", "/x", MIN_FREE_BYTES - 1).outcome is Outcome.WARNING


def test_each_unknown_variable_is_a_warning() -> None:
    assert [finding.outcome for finding in judge_variables(["A is not a setting", "B is not one"])] == (
        [Outcome.WARNING] * 2
    )
    assert wrong(judge_variables([])) == {}


def test_executors_like_the_driver_are_well() -> None:
    assert wrong(judge_executors(DRIVER, [EXECUTOR, replace(EXECUTOR, host="worker-2")])) == {}


@pytest.mark.parametrize(
    ("change", "check", "outcome"),
    [
        ({"versions": DRIVER | {"pyarrow": "19.0.0"}}, "executor_packages", Outcome.UNSAFE),
        ({"versions": DRIVER | {"sqlalchemy": "2.0.40"}}, "executor_packages", Outcome.WARNING),
        ({"versions": {"python": "3.12.1", "sqlalchemy": "2.1.0"}}, "executor_packages", Outcome.UNSAFE),
        ({"database": "Postgres does not answer"}, "executor_database", Outcome.UNSAFE),
        ({"clock_behind_seconds": -60.0}, "executor_clock", Outcome.WARNING),
    ],
)
def test_an_executor_that_differs_is_named(change: dict[str, object], check: str, outcome: Outcome) -> None:
    other = replace(EXECUTOR, host="worker-2", **change)  # type: ignore[arg-type]
    findings = judge_executors(DRIVER, [EXECUTOR, other])
    assert wrong(findings) == {check: outcome}
    assert any("worker-2" in finding.detail for finding in findings if finding.check == check)


def test_only_unsafe_findings_prevent_a_start() -> None:
    finding = Finding("check", Outcome.UNSAFE, "detail", "remedy")
    assert unsafe_among([finding, replace(finding, outcome=Outcome.WARNING)]) == [finding]
