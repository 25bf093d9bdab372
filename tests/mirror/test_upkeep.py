"""The mirror compacts and vacuums by itself.

delta-28: "We recommend that you run this command on large, frequently updated Delta tables on a regular basis, perhaps
every day when your ETL process completes." and "Take care to set an appropriate retention period".
"""

import os
from dataclasses import replace
from datetime import UTC, datetime, time
from itertools import count
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from app.domain.mirror_report import NO_UPKEEP, Upkeep
from app.landing.open_zone import ZoneAddress
from app.mirror.inspection.history import LastUpkeep, read_upkeep
from app.mirror.table_mirror import MirrorLimits
from app.published.table_files import PublishedTable
from app.settings import Settings
from mirrorgate.errors import Misconfigured
from spark_jobs.mirroring.loop import TableStates
from spark_jobs.mirroring.task import NO_VERSION, DueTable, MirrorJob, TableOutcome, mirror_tables
from tests.mirror.small_zone import SmallZone

TABLE = PublishedTable("s", "t", "s.schema/t")


class Mirror(SmallZone):
    """A table whose mirror applies one file in a version, and keeps itself up."""

    def __init__(self, place: Path, upkeep: Upkeep) -> None:
        super().__init__(place, TABLE)
        self.job = MirrorJob(ZoneAddress(str(self.root)), self.target, MirrorLimits(max_files=1), upkeep, seconds=60)
        self._files = count(1)

    def land_keys(self, *keys: int) -> None:
        self.land(next(self._files), [(key, "", 0) for key in keys])

    def look(self, *, is_daily: bool = False) -> TableOutcome:
        delta = self.target.open(TABLE)
        version = NO_VERSION if delta is None else delta.version()
        [outcome] = mirror_tables(self.job, [DueTable(TABLE, version, is_daily)])
        assert outcome.failure is None, outcome.failure
        return outcome

    def upkeep(self) -> LastUpkeep:
        return read_upkeep(self.target, ["s.t"])["s.t"]

    def data_files(self) -> list[Path]:
        return [*self.delta_folder.glob("*.parquet")]


def test_a_first_look_names_the_remedy_for_a_damaged_log(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path, NO_UPKEEP)
    for number in range(3):
        mirror.land_keys(number)
        mirror.look()
    (mirror.delta_folder / "_delta_log" / f"{1:020}.json").unlink()
    [outcome] = mirror_tables(mirror.job, [DueTable(TABLE, None)])
    assert outcome.failure is not None
    assert outcome.failure.code == "mirror_away"
    assert "the Delta table s.t is damaged" in outcome.failure.detail


def test_a_table_is_compacted_when_it_has_as_many_small_files_as_the_setting_says(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path, Upkeep(small_files=3, retention_hours=0))
    for number in range(2):
        mirror.land_keys(number)
    assert mirror.look().compacted == 0
    assert mirror.upkeep().compacted_at is None
    mirror.land_keys(2)
    done = mirror.look()
    assert (done.compacted, done.files, done.vacuumed) == (2, 1, None)
    delta = mirror.target.open(TABLE)
    assert delta is not None
    assert (len(delta.file_uris()), delta.to_pyarrow_table().num_rows) == (1, 3)
    assert done.report is not None
    assert done.report.version == delta.version()
    compacted_at = mirror.upkeep().compacted_at
    assert compacted_at is not None
    assert compacted_at.timestamp() * 1_000 == pytest.approx(delta.history(1)[0]["timestamp"])
    mirror.land_keys(3)
    assert mirror.look().files == 1


def test_the_daily_vacuum_deletes_what_no_version_of_the_retention_needs(tmp_path: Path) -> None:
    mirror = Mirror(tmp_path, Upkeep(small_files=2, retention_hours=168))
    mirror.land_keys(1)
    mirror.land_keys(2)
    assert mirror.look().compacted == 1
    assert (mirror.look(is_daily=True).vacuumed, len(mirror.data_files())) == (0, 3)
    orphan = mirror.data_files()[0].with_name("part-of-a-killed-mirror.parquet")
    orphan.write_bytes(b"x")
    old = datetime.now(UTC).timestamp() - 200 * 3600
    os.utime(orphan, (old, old))
    done = mirror.look(is_daily=True)
    assert (done.vacuumed, orphan.exists()) == (1, False)
    assert mirror.upkeep().vacuumed_at is not None


def test_the_rows_of_a_row_group_are_a_setting(tmp_path: Path) -> None:
    """delta-25: "you might consider changing the row group size for large Delta tables"."""
    assert Settings.from_environment(row_group_rows="2000").row_group_rows == 2_000
    mirror = Mirror(tmp_path, Upkeep(small_files=2, retention_hours=0))
    mirror.job = replace(mirror.job, limits=MirrorLimits(max_files=1, row_group_rows=1_000))
    mirror.land_keys(*range(3_000))
    mirror.look()
    [file] = mirror.data_files()
    assert pq.read_metadata(file).num_row_groups == 3
    mirror.land_keys(*range(3_000, 4_500))
    assert mirror.look().compacted == 1
    delta = mirror.target.open(TABLE)
    assert delta is not None
    [compacted] = delta.file_uris()
    metadata = pq.read_metadata(compacted.removeprefix("file://"))
    assert max(metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)) <= 1_000


def test_a_closed_window_and_a_mirror_without_upkeep_do_nothing(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    closed = (time((now.hour + 11) % 24), time((now.hour + 12) % 24))
    for name, upkeep in (("a", Upkeep(2, 168, closed)), ("b", NO_UPKEEP)):
        mirror = Mirror(tmp_path / name, upkeep)
        for number in range(3):
            mirror.land_keys(number)
        done = mirror.look(is_daily=True)
        assert (done.compacted, done.vacuumed) == (0, None)


@pytest.mark.parametrize(
    ("window", "moment", "is_open"),
    [
        ("01:00-04:30", time(1), True),
        ("01:00-04:30", time(4, 30), False),
        ("22:00-02:00", time(23), True),
        ("22:00-02:00", time(1, 59), True),
        ("22:00-02:00", time(12), False),
        (None, time(12), True),
    ],
)
def test_a_window_is_a_time_of_day_and_can_be_over_midnight(window: str | None, moment: time, is_open: bool) -> None:
    settings = Settings.from_environment(mirror_upkeep_window=window)
    assert settings.mirror_upkeep.is_open(datetime.combine(datetime(2026, 7, 1), moment, UTC)) is is_open


@pytest.mark.parametrize("wrong", [{"mirror_retention_hours": "24"}, {"mirror_upkeep_window": "1:00-25:00"}])
def test_settings_that_would_harm_readers_or_mean_nothing_are_rejected(wrong: dict[str, str]) -> None:
    with pytest.raises(Misconfigured):
        Settings.from_environment(**wrong)


def test_each_table_has_its_upkeep_once_a_day() -> None:
    states, seen = TableStates(Upkeep(64, 168)), {TABLE: "a"}
    assert states.find_due(seen) == [TABLE]
    assert states.start([TABLE], seen) == [DueTable(TABLE, None, is_daily=True)]
    states.finish([TABLE])
    assert states.start([TABLE], seen) == [DueTable(TABLE, None, is_daily=False)]
