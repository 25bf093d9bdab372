"""Random histories, and small ones in every order of steps: the mirror equals the independent model."""

import random
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from app.domain.mirror_report import MirrorState, TableReport
from app.mirror.table_mirror import MirrorLimits
from tests.mirror.model.delta_content import delta_rows
from tests.mirror.model.history import Mirror, file_sizes, open_histories
from tests.mirror.model.landed import DELETE, INSERT, UPDATE, UPSERT, Column, Generation, LandedFile, Metadata, Row
from tests.mirror.model.table_model import TableModel
from tests.mirror.model.version_check import assert_equal_rows, check_every_version
from tests.mirror.model.zone_writer import TableWriter, file_name


def run_history(place: Path, seed: int, changes: int, mean: int) -> list[str]:
    """Mirror one history file by file, and again with several files a commit; return what was compared."""
    source = random.Random(seed)
    in_step = Mirror(place / "zone", place / "in step")
    behind = Mirror(place / "zone", place / "behind", MirrorLimits(max_files=7))
    histories = open_histories(source, place / "zone")
    for changes_of_file in file_sizes(source, changes, mean):
        table = source.choice(histories)
        if table.current.files and source.random() < 0.03:
            behind.advance(table.writer)  # generations are counted by who sees them
            table.recreate()
        table.step(changes_of_file)
        report = in_step.catch_up(table.writer)
        assert (report.state, report.file_number) == (MirrorState.IN_STEP, len(table.current.files)), report
        if source.random() < 0.1:
            behind.catch_up(table.writer)
    compared = []
    for table in histories:
        behind.catch_up(table.writer)
        of_table = table.check(in_step)
        assert [each.versions for each in of_table] == [len(each.files) for each in table.generations]
        compared += [f"{table.writer.table}: {each}" for each in of_table]
        compared += [f"{table.writer.table}, catching up: {each}" for each in table.check(behind)]
    return compared


def test_every_version_equals_the_model(tmp_path: Path) -> None:
    assert run_history(tmp_path, seed=1, changes=6_000, mean=100)


@pytest.mark.thorough
@pytest.mark.timeout(3_600)
def test_every_version_of_200_000_changes_equals_the_model(tmp_path: Path) -> None:
    assert run_history(tmp_path, seed=15, changes=200_000, mean=400)


KEYS = st.sampled_from([0, 1, 2, None])
TEXTS = st.sampled_from(["a", "b", None])
MARKERS = st.sampled_from([INSERT, UPDATE, DELETE, UPSERT])
FOLDER = "dbo.schema/Order Lines"
KEY = Column("Id", "int64")
OTHERS = tuple(Column(name, "string") for name in ("name", "Größe", "a.b"))


class SmallHistory(RuleBasedStateMachine):
    """The zone of one table with a mirror, and the model of what the mirror has applied."""

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(prefix="small-history-"))
        self.mirror = Mirror(self.place / "zone", self.place / "mirror")
        self.writer = TableWriter(self.mirror.root, FOLDER)
        self.generations: list[Generation] = []
        self.applied = TableModel()
        self.file_number = 0
        self.seen = 0
        """Generations that the mirror has begun."""
        self.width = 1
        self.is_dropped = True
        self.stopping: LandedFile | None = None
        """The last file of the zone, if it stops the table."""
        self.begin(Metadata(("ID",)))

    def teardown(self) -> None:
        shutil.rmtree(self.place)

    def begin(self, metadata: Metadata) -> None:
        self.generations.append(Generation(metadata))
        self.writer.register(metadata)
        self.width, self.is_dropped, self.stopping = 1, False, None

    @property
    def current(self) -> Generation:
        return self.generations[-1]

    def land(self, rows: list[tuple[int, int | None, str | None]], *, bare: bool, extra: Column | None = None) -> None:
        columns = (KEY, *OTHERS[: self.width], *([extra] if extra else []))
        made = tuple(
            Row({"Id": key, **{column.name: text for column in columns[1:]}}, INSERT if bare else marker)
            for marker, key, text in rows
        )
        self.current.files.append(LandedFile(columns, made, has_markers=not bare))
        self.writer.land(len(self.current.files), self.current.files[-1])

    @precondition(lambda self: not self.is_dropped and self.stopping is None)
    @rule(rows=st.lists(st.tuples(MARKERS, KEYS, TEXTS), max_size=6), bare=st.booleans())
    def land_a_file(self, rows: list[tuple[int, int | None, str | None]], bare: bool) -> None:
        self.land(rows, bare=bare)

    @precondition(lambda self: not self.is_dropped and self.width < len(OTHERS))
    @rule()
    def add_a_column(self) -> None:
        self.width += 1

    @precondition(lambda self: not self.is_dropped and self.stopping is None and self.current.files)
    @rule()
    def land_a_file_with_another_type(self) -> None:
        columns = (replace(KEY, kind="int32"),)
        self.stopping = LandedFile(columns, (Row({"Id": 1}, INSERT),))
        self.writer.land(len(self.current.files) + 1, self.stopping)

    @precondition(lambda self: not self.is_dropped and self.stopping is not None)
    @rule()
    def repair_that_file(self) -> None:
        (self.writer.path / file_name(len(self.current.files) + 1)).unlink()
        self.stopping = None
        self.land([(UPSERT, 1, "repaired")], bare=False)

    @precondition(lambda self: not self.is_dropped and self.seen == len(self.generations))
    @rule()
    def drop(self) -> None:
        self.writer.drop()
        self.is_dropped = True

    @precondition(lambda self: self.is_dropped)
    @rule(upsert_by_default=st.booleans())
    def recreate(self, upsert_by_default: bool) -> None:
        self.begin(Metadata(("Id",), upsert_by_default))

    @rule(files=st.sampled_from([1, 2, 64]))
    def mirror_once(self, files: int) -> None:
        self.mirror.limits = MirrorLimits(max_files=files)
        before = self.position()
        self.expect(self.mirror.advance(self.writer), before, files)

    def position(self) -> tuple[int, int]:
        return self.seen, self.file_number

    def expect(self, report: TableReport, before: tuple[int, int], files: int) -> None:
        """Compare a report and the table after it with the model."""
        if self.is_dropped:
            assert report.state is MirrorState.DROPPED or self.seen == 0, report
            assert self.position() == before
            return
        total = len(self.current.files)
        if self.seen < len(self.generations) and total:
            self.seen, self.file_number, self.applied = len(self.generations), 0, TableModel()
        if self.seen < len(self.generations):
            return
        first, self.file_number = self.file_number, min(self.file_number + files, total)
        for file in self.current.files[first : self.file_number]:
            self.applied.apply(file, self.current.metadata)
        assert (report.generation, report.file_number) == (self.seen, self.file_number), report
        if self.file_number < total:
            assert report.state is MirrorState.BEHIND, report
        elif self.stopping is None:
            assert report.state is MirrorState.IN_STEP, report
        elif before == self.position():
            assert report.state is MirrorState.STOPPED, report
            assert "SchemaMergeFailure" in str(report.detail)

    @invariant()
    def the_table_equals_the_model(self) -> None:
        if not self.seen:
            return
        table = self.mirror.target.open(self.writer.table)
        assert table is not None
        found = delta_rows(table, list(self.applied.columns))
        assert_equal_rows(found, self.applied.rows(), str(self.position()))

    @precondition(lambda self: self.seen == len(self.generations))
    @rule()
    def compare_every_version(self) -> None:
        uri = self.mirror.target.uri(self.writer.table)
        check_every_version(uri, self.generations[self.seen - 1], self.seen)


TestSmallHistories = SmallHistory.TestCase
TestSmallHistories.settings = settings(stateful_step_count=12)
