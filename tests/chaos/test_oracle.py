"""The oracle detects planted protocol defects and damaged landing zones."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from app.domain.model.landing_file import BuiltFile
from app.domain.model.names import TableName
from app.landing.local_zone import LocalZone
from app.landing.publish import Scratch
from app.landing.zone import LandingZone, RenameOutcome
from tests.chaos.checks.journal import Contradiction, Journal
from tests.chaos.checks.oracle import Violation
from tests.chaos.simulation import Simulation, simulation

TABLE = "shop.customers"


@pytest.fixture
def history(engine: sa.Engine, database_url: str, tmp_path: Path) -> Iterator[Simulation]:
    """Yield a gateway without faults, whose mirror moves away all but the last file."""
    with simulation(engine, database_url, tmp_path, seed=7, seed_files=False) as made:
        made.drains.calm = True
        made.consumed_share = 1.0
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "landing-zone" / "shop.schema" / "customers"


def published(history: Simulation, files: int) -> None:
    """So many files of the table, which the oracle has not seen."""
    for _ in range(files):
        history.post(TABLE)
        history.drains.turn()


def pause_once(history: Simulation, point: str, meanwhile: Callable[[], None]) -> None:
    """Let the next drain pause at a point until others have published, and `meanwhile` is done."""
    left = [point]

    def paused(reached: str) -> bool:
        return bool(left) and reached == left[0] and bool(left.pop())

    history.drains.calm = False
    history.drains.dies_at = history.drains.fails_at = lambda _: False
    history.drains.troubled = False
    history.drains.paused_at = paused
    history.drains.between = meanwhile


def two_more(history: Simulation) -> None:
    published(history, 2)
    history.look()


def rewritten(file: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Rewrite the file as a defective gateway would have: other rows, and a footer that agrees."""
    table = pq.read_table(file)
    changed = change(table.replace_schema_metadata(None))
    footer = {**table.schema.metadata, b"mirrorgate.rows": str(changed.num_rows).encode()}
    with pq.ParquetWriter(file, changed.schema, store_schema=False) as writer:
        writer.write_table(changed)
        writer.add_key_value_metadata(footer)


def first_file(folder: Path) -> Path:
    return min(folder.rglob("*.parquet"), key=lambda file: file.name)


def test_a_gateway_without_a_defect_is_found_sound(history: Simulation) -> None:
    published(history, 3)
    history.settle()
    assert history.oracle.files_checked == 3 + 1  # the seed file of the table that metadata registers
    assert history.oracle.rows_checked > 0


def test_a_drain_that_wakes_up_harms_nothing_while_older_epochs_are_revoked(history: Simulation) -> None:
    pause_once(history, "before W7 rename", lambda: two_more(history))
    published(history, 1)
    history.settle()


def test_a_skipped_revoke_is_found(history: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.steps.take_over.revoke_older_epochs", lambda *_, **__: None)
    pause_once(history, "before W7 rename", lambda: two_more(history))
    with pytest.raises(Violation, match="came back after they were consumed"):
        published(history, 1)
        history.look()


def test_a_rename_that_replaces_is_found(history: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(zone: LocalZone, source: str, destination: str) -> RenameOutcome:
        zone.replace_file(source, destination)
        return RenameOutcome.RENAMED

    monkeypatch.setattr("spark_jobs.steps.take_over.revoke_older_epochs", lambda *_, **__: None)
    published(history, 1)
    history.look()
    pause_once(history, "before W7 rename", history.look)
    monkeypatch.setattr(LocalZone, "rename", replace)
    with pytest.raises(Violation, match="changed after it was visible"):
        published(history, 1)
        history.look()


def test_a_number_taken_from_a_listing_is_found(history: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(zone: LandingZone, name: TableName, built: BuiltFile) -> None:
        number = 1 + sum(file.endswith(".parquet") for file in zone.names(name.folder))
        source = Scratch(built.planned.table_id, built.epoch).path(built.temp_name)
        zone.rename(source, f"{name.folder}/{number:020d}.parquet")

    monkeypatch.setattr("spark_jobs.steps.publishing.make_visible", listed)
    published(history, 3)
    history.look()
    published(history, 1)
    with pytest.raises(Violation, match="came back after they were consumed"):
        history.look()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda table: table.slice(1), id="a lost row"),
        pytest.param(lambda table: pa.concat_tables([table, table]), id="a doubled batch"),
        pytest.param(lambda table: table.take(list(range(table.num_rows))[::-1]), id="reordered rows"),
    ],
)
def test_wrong_rows_are_found(history: Simulation, folder: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    published(history, 2)
    rewritten(first_file(folder), change)
    with pytest.raises(Violation, match="the first that differs"):
        history.look()


def test_a_batch_that_was_acknowledged_and_never_landed_is_found(history: Simulation) -> None:
    published(history, 2)
    history.journal.sent("lost", TABLE, [[0, 1, "Ada", None, None]])
    history.journal.accepted("lost", 1, 3)
    with pytest.raises(Violation, match="up to 3 were acknowledged, up to 2 landed"):
        history.settle()


def test_a_batch_that_lands_in_two_files_is_found(history: Simulation, folder: Path) -> None:
    published(history, 1)
    history.look()
    content = first_file(folder).read_bytes()
    (folder / f"{2:020d}.parquet").write_bytes(content)
    with pytest.raises(Violation, match="says that it is"):
        history.look()


def test_a_file_whose_batches_were_never_acknowledged_is_found(history: Simulation) -> None:
    published(history, 1)
    history.harness.arcion(history.tables[0].message(history.tables[0], "I", None, [10**6, "Ada", None, None]))
    with pytest.raises(Violation, match="nobody was told"):
        history.settle()


def test_a_file_that_changes_after_it_was_visible_is_found(history: Simulation, folder: Path) -> None:
    published(history, 1)
    history.look()
    rewritten(first_file(folder), lambda table: table)
    with pytest.raises(Violation, match="changed after it was visible"):
        history.look()


def test_a_recorded_file_that_is_not_there_is_found(history: Simulation, folder: Path) -> None:
    published(history, 2)
    max(folder.glob("*.parquet")).unlink()
    with pytest.raises(Violation, match="recorded as published, but not there"):
        history.look()


def test_a_file_that_goes_away_is_found(history: Simulation, folder: Path) -> None:
    published(history, 2)
    history.look()
    first_file(folder).unlink()
    with pytest.raises(Violation, match="a gap"):
        history.look()


def test_a_sequence_given_to_two_requests_is_found(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    for key in ("a", "b"):
        journal.sent(key, TABLE, [])
    journal.accepted("a", 1, 1)
    with pytest.raises(Contradiction, match="two requests"):
        journal.accepted("b", 1, 1)
    journal.close()


def test_a_journal_is_gone_on_with_where_it_was_left(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    journal.sent("a", TABLE, [[0, 1]])
    journal.accepted("a", 1, 1)
    journal.sent("b", TABLE, [[0, 2]])
    journal.close()
    again = Journal(tmp_path / "journal")
    assert again.unanswered() == ["b"]
    assert again.last_sequence((TABLE, 1)) == 1
    again.close()
