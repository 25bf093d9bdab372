"""What the console says of values: troubles in order, plots with gaps, numbers and times for people."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.console import text
from app.console.assets import MEDIA_TYPES, STATIC, asset
from app.console.render import TEMPLATES, environment, prose
from app.console.views.attention import troubles
from app.console.views.overview import totals_of
from app.console.views.plots import hour_plots
from app.console.views.table_list import TableQuery, table_list
from app.domain.access.console_session import SessionToken, safe_next
from app.domain.preflight.database_findings import judge_durability
from app.staging.overview.table_summaries import TableSummary
from app.staging.retention.history import Sample

NOW = datetime(2026, 1, 1, 12, 30, 20, tzinfo=UTC)
PLAIN: dict[str, Any] = dict.fromkeys(TableSummary._fields) | {
    "table_id": 1, "name": "a.b", "generation": 1, "state": "active", "accepted_rows": 0, "pending_rows": 0,
    "oldest_seconds": 0.0, "waiting_letters": 0,
}  # fmt: skip


def summary(**values: Any) -> TableSummary:
    return TableSummary(**(PLAIN | values))


def test_a_quarantine_says_since_when_and_links_to_its_section() -> None:
    [found] = troubles(
        [summary(state="quarantined", state_reason="foreign_file: f.parquet", quarantined_at=NOW)],
        {},
        None,
        {},
        0.0,
        [],
    )
    assert found.since == NOW
    page = "https://github.com/mirrorgate/mirrorgate/blob/main/docs/operations.md#after-a-foreign-file"
    assert f'<a href="{page}" rel="noreferrer">docs/operations.md#after-a-foreign-file</a>' in prose(found.remedy)
    assert "<b>" not in prose("<b> `<b>` docs/operations.md")


def test_what_stops_data_comes_first() -> None:
    seen = [
        summary(name="letters", waiting_letters=3),
        summary(name="paused", state="paused", pending_rows=7),
        summary(
            name="failing",
            failure_code="disk_full",
            failure_detail="no space",
            failure_remedy="Free it.",
            failure_tries=4,
        ),
        summary(name="full", table_id=9),
        summary(name="gone", state="quarantined", state_reason="landing_folder_lost: gone"),
        summary(name="fabric", fabric_error="user error"),
    ]
    unsafe = judge_durability("off", "on", "on")
    found = troubles(seen, {"api": "ok", "drain": "none"}, None, {(9, 1): 0.9}, 0.1, unsafe)  # type: ignore[dict-item]  # plain ids
    assert [(trouble.severity, trouble.title) for trouble in found] == [
        ("bad", "Nothing is published"),
        ("bad", "Postgres can lose acknowledged changes"),
        ("bad", "gone"),
        ("bad", "failing"),
        ("bad", "fabric"),
        ("warn", "full"),
        ("warn", "letters"),
        ("warn", "1 paused table"),
    ]
    assert all(trouble.why and trouble.remedy for trouble in found)
    assert troubles([summary()], {"api": "ok"}, None, {}, 0.0, judge_durability("on", "on", "on")) == ()


def test_paused_tables_and_their_rows_are_told_in_singular_and_plural() -> None:
    for states, rows, why, remedy in (
        (["paused"], 1, "t0: 1 row waits. An operator paused it.", "Resume it when"),
        (["paused"] * 2, 7, "t0, t1: 14 rows wait. An operator paused them.", "Resume them when"),
    ):
        seen = [summary(name=f"t{number}", state=state, pending_rows=rows) for number, state in enumerate(states)]
        safe = judge_durability("on", "on", "on")
        (trouble,) = troubles(seen, {"api": "ok"}, None, {}, 0.0, safe)
        assert trouble.why == why
        assert trouble.remedy.startswith(remedy)


def test_totals_add_up_what_is_seen() -> None:
    totals = totals_of(
        [summary(accepted_rows=10, pending_rows=4, processed_rows=3), summary(state="paused", accepted_rows=5)]
    )
    assert (totals.accepted, totals.staged, totals.published, totals.pending, totals.processed) == (15, 15, 11, 4, 3)
    assert totals.states == (("active", 1), ("paused", 1))
    assert totals_of([]).processed is None


def test_the_overview_and_the_list_count_the_states_of_tables_alike() -> None:
    seen = [
        summary(table_id=1, name="a", failure_code="storage_failed"),
        summary(table_id=2, name="b", state="rebuilding", failure_code="storage_failed"),
        summary(table_id=3, name="c", state="rebuilding"),
    ]
    assert totals_of(seen).states == (("failing", 1), ("rebuilding", 2))
    listed = table_list(seen, TableQuery(state="rebuilding"), {})
    assert [(chip.label, chip.number) for chip in listed.chips] == [("All", 3), ("Failing", 2), ("Rebuilding", 2)]
    assert [(row.summary.name, row.state) for row in listed.rows] == [("b", "rebuilding"), ("c", "rebuilding")]


def test_a_minute_without_a_sample_is_a_gap_in_a_plot() -> None:
    minute = NOW.replace(second=0)
    samples = [Sample(minute - timedelta(minutes=2), 60, 120, 60, 5, 1.5), Sample(minute, 30, 0, 60, 0, 0.0)]
    rates = hour_plots(samples, NOW, minutes=3)[0]
    assert json.loads(rates.data) == [
        [int((minute - timedelta(minutes=back)).timestamp()) for back in (2, 1, 0)],
        [2, None, 0],
        [1, None, 2],
    ]
    assert [(line.label, line.now, line.most) for line in rates.lines] == [
        ("Accepted", "0", "2"),
        ("Published", "2", "2"),
    ]
    assert [row.minute for row in rates.rows] == ["12:30", "12:28"]
    assert "accepted 0 now, at most 2" in rates.description
    assert hour_plots([], NOW)[1].lines[0].now == "–"


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (text.short_count(9_999), "9,999"), (text.short_count(12_345), "12.3k"), (text.short_count(999_999), "1,000k"),
        (text.short_count(4_500_000), "4.5M"), (text.short_count(0.25), "0.2"), (text.short_count(None), "–"),
        (text.size(1023), "1023 B"), (text.size(1536), "1.5 KiB"), (text.duration(0.2), "0 s"),
        (text.duration(3_605), "1 h"), (text.duration(7_530), "2 h 5 min"), (text.duration(90_000), "1 d 1 h"),
        (text.ago(NOW - timedelta(seconds=65), NOW), "1 min 5 s ago"),
        (text.ago(NOW + timedelta(hours=1), NOW), "in 1 h"),
        (text.exact(NOW), "2026-01-01 12:30:20 UTC"), (text.percent(0.004), "<1\u00a0%"),
        (text.percent(0.42), "42\u00a0%"),
    ],
)  # fmt: skip
def test_numbers_and_times_are_short(shown: str, expected: str) -> None:
    assert shown == expected


def test_the_token_of_a_session_binds_it_to_the_secret_that_signed_in() -> None:
    token = SessionToken.of(b"\1" * 32)
    assert SessionToken.parse(token.text) == token
    assert token.text not in repr(token)
    assert token.is_bound_to(token.proof(b"one"), [b"two", b"one"])
    assert not token.is_bound_to(token.proof(b"one"), [b"two"])
    assert not SessionToken.of(b"\2" * 32).is_bound_to(token.proof(b"one"), [b"one"])
    assert [SessionToken.parse(given) for given in (None, "", "x", token.text + "=")] == [None] * 4


@pytest.mark.parametrize("given", ["/console", "/console/tables?search=a%20b&x=/y", "/console?a=1"])
def test_a_path_of_the_console_is_kept(given: str) -> None:
    assert safe_next(given) == given


def test_templates_escape_and_have_no_inline_script_or_style() -> None:
    assert environment().autoescape is True
    for template in TEMPLATES.glob("*.html"):
        source = template.read_text("utf-8")
        environment().get_template(template.name)
        for forbidden in (
            "|safe",
            "| safe",
            "autoescape false",
            " style=",
            "<style",
            " onclick",
            "javascript:",
            "hx-on",
        ):
            assert forbidden not in source, template.name
        assert source.count("<script") == source.count("<script src="), template.name


def test_served_files_are_the_ones_that_the_readme_lists() -> None:
    listed = (STATIC / "vendor" / "README.md").read_text("utf-8")
    for name in MEDIA_TYPES:
        found = asset(name)
        assert found.content
        if name.startswith("vendor/"):
            assert f"`{name.removeprefix('vendor/')}` | `{found.digest}" in listed
    assert sum(len(asset(name).content) for name in MEDIA_TYPES) < 150_000
