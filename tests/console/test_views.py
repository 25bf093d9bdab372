"""What the console says of values: troubles, plots with gaps, numbers and times for people, plans of rebuilds."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.console.overview import TableQuery, attention, hour_plots, table_list, totals_of
from app.console.render import MEDIA_TYPES, STATIC, TEMPLATES, asset, environment, prose
from app.console.table import PlanFields
from app.domain.health.facts import HealthFacts, TableSummary
from app.domain.health.troubles import troubles
from app.domain.model.names import TableName
from app.domain.model.table import Generation, Table, TableId, TableState
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import SchemaVersion
from app.domain.rebuild import RebuildPlan, plan_rebuild
from app.staging.retention.history import Sample
from mirrorgate import text
from mirrorgate.errors.site import SITE
from tests.support.samples.schemas import schema_of

NOW = datetime(2026, 1, 1, 12, 30, 20, tzinfo=UTC)
PLAIN: dict[str, Any] = dict.fromkeys(TableSummary._fields[:21]) | {
    "table_id": 1, "name": "a.b", "generation": 1, "state": "active", "accepted_rows": 0, "pending_rows": 0,
    "oldest_seconds": 0.0, "waiting_letters": 0, "missing_changes": 0,
}  # fmt: skip


def summary(**values: Any) -> TableSummary:
    return TableSummary(**(PLAIN | values))


def test_a_remedy_links_to_its_section_and_nothing_in_it_is_markup() -> None:
    table = summary(state="quarantined", state_reason="foreign_file: f.parquet", quarantined_at=NOW)
    [found] = attention(troubles(HealthFacts(tables=[table])))
    assert (found.severity, found.title, found.link, found.since) == ("bad", "a.b", "/console/tables/a.b", NOW)
    page = "troubleshoot/quarantined/#foreign_file"
    assert f'<a href="{SITE}{page}" rel="noreferrer">{page}</a>' in prose(found.remedy)
    assert "<b>" not in prose(f"<b> `<b>` {SITE}operate/")


def test_a_trouble_of_many_tables_is_shown_five_times_and_counted_once() -> None:
    seen = [summary(name=f"t{number}", state="paused") for number in range(8)]
    found = attention(troubles(HealthFacts(tables=seen, total_share=1.0)))
    assert [(one.chip, one.title, one.link) for one in found] == [
        ("backlog", "The backlog is full", None),
        *(("paused", f"t{number}", f"/console/tables/t{number}") for number in range(5)),
        ("paused", "3 more tables", "/console/tables?state=paused"),
    ]
    assert found[-1].why == "t5, t6, t7"


def test_totals_add_up_what_is_seen() -> None:
    totals = totals_of(
        [summary(accepted_rows=10, pending_rows=4, processed_rows=3), summary(state="paused", accepted_rows=5)]
    )
    assert (totals.accepted, totals.pending, totals.processed) == (15, 4, 3)
    assert totals.states == {"active": 1, "paused": 1}
    assert totals_of([]).processed is None


def test_the_overview_and_the_list_count_the_states_of_tables_alike() -> None:
    seen = [
        summary(table_id=1, name="a", failure_code="storage_failed"),
        summary(table_id=2, name="b", state="rebuilding", failure_code="storage_failed"),
        summary(table_id=3, name="c", state="rebuilding"),
    ]
    assert totals_of(seen).states == {"failing": 1, "rebuilding": 2}
    listed = table_list(seen, TableQuery(state="rebuilding"), {})
    assert [chip[1:] for chip in listed.chips] == [("All", 3), ("Failing", 2), ("Rebuilding", 2)]
    assert [(summary.name, summary.shown_state) for summary, _ in listed.rows] == [
        ("b", "rebuilding"),
        ("c", "rebuilding"),
    ]


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


SCHEMA = schema_of({"id": "int64", "a:b": "string", "x": "int32", "y": "int32"}, ["id"], required=["id", "x"])
TABLE = Table(
    TableId(1),
    TableName.parse("t"),
    Generation(1),
    TableState.ACTIVE,
    SchemaVersion(1),
    SCHEMA,
    TableOptions.parse({"row_images": "on"}),
    images_complete=True,
)


def planned(fields: PlanFields) -> RebuildPlan:
    return plan_rebuild(TABLE, fields.columns(SCHEMA), fields.key_columns)


@pytest.mark.parametrize(
    "fields",
    [
        PlanFields(),
        PlanFields(types="a:b: binary\nx: int32 optional\ny: decimal(9,2) required"),
        PlanFields(renames="x = y\ny = x"),
        PlanFields(renames="id = order"),
        PlanFields("x", renames="id = order"),
        PlanFields("new\nid", types="id: string", renames="a:b = new", dropped="x\ny"),
    ],
)
def test_the_fields_of_a_plan_are_those_that_asked_for_it(fields: PlanFields) -> None:
    assert PlanFields.of(planned(fields), SCHEMA) == fields


def test_fields_say_nothing_of_what_stays_as_it_is() -> None:
    wordy = PlanFields(" id \n", " x : int32\nx: int32 required\n\nid: int64 optional ", "x = x")
    assert planned(wordy) == plan_rebuild(TABLE)
    assert PlanFields.of(planned(wordy), SCHEMA) == PlanFields()
