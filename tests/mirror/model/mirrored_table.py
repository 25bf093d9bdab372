"""A mirrored table with every kind of column, for tests of programs that read it."""

import random
from pathlib import Path

import pyarrow as pa

from tests.mirror.model.delta_content import arrow_rows
from tests.mirror.model.history import Mirror, TableHistory
from tests.mirror.model.publisher import Style
from tests.mirror.model.table_model import TableModel
from tests.mirror.model.version_check import assert_equal_rows
from tests.mirror.model.zone_writer import TableWriter


class MirroredTable:
    """One table with every kind of column, and its model."""

    def __init__(self, place: Path, folder: str, seed: int) -> None:
        source = random.Random(seed)
        mirror = Mirror(place / "zone", place / "mirror")
        history = TableHistory(source, TableWriter(mirror.root, folder), Style(keys=2, first_columns=20))
        for _ in range(8):
            history.publisher.add_column()
            history.land(60)
            mirror.catch_up(history.writer)
        self.uri = mirror.target.uri(history.writer.table)
        self.model = TableModel()
        for file in history.current.files:
            self.model.apply(file, history.current.metadata)

    @property
    def has_plain_path(self) -> bool:
        return self.uri.isascii() and " " not in self.uri

    def compare(self, found: pa.Table) -> None:
        assert_equal_rows(arrow_rows(found, list(self.model.columns)), self.model.rows(), self.uri)
