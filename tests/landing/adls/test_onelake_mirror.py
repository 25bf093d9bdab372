"""The mirror stand-in takes files in order and reports every violation."""

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mirrorgate_zone.emulator import OneLake
from tests.support.onelake.mirror import PROCESSED, Mirror

METADATA = json.dumps({"keyColumns": ["id"]}).encode()


def parquet(**columns: list[Any]) -> bytes:
    sink = io.BytesIO()
    rows = len(next(iter(columns.values())))
    pq.write_table(pa.table({**columns, "__rowMarker__": pa.array([0] * rows, pa.int32())}), sink)
    return sink.getvalue()


def put(onelake: OneLake, path: str, content: bytes, *, replace: bool = False) -> None:
    """Make one file visible by a rename."""
    onelake.tree.put(f"{onelake.landing_zone}/{path}", content, new_only=not replace, metadata={})


def name(number: int) -> str:
    return f"{number:020d}.parquet"


def delete(onelake: OneLake, path: str) -> None:
    onelake.tree.delete(f"{onelake.landing_zone}/{path}", recursive=True, etag=None, lease=None)


def test_files_are_consumed_in_order_and_all_but_the_last_are_moved(onelake: OneLake) -> None:
    mirror = Mirror(onelake)
    put(onelake, "s.schema/t/_metadata.json", METADATA)
    for number in (1, 2, 3):
        put(onelake, f"s.schema/t/{name(number)}", parquet(id=[number, number * 10]))
    mirror.check()
    table = mirror.tables["s.schema/t"]
    assert [row["id"] for row in table.rows] == [1, 10, 2, 20, 3, 30]
    assert onelake.names("s.schema/t") == [name(3), PROCESSED, "_metadata.json"]
    assert onelake.names(f"s.schema/t/{PROCESSED}") == [name(1), name(2)]
    status = json.loads(onelake.tree.find(f"{onelake.item[0]}/Files/Monitoring/tables.json").content)
    assert status["tables"] == [
        {"sourceSchemaName": "s", "sourceTableName": "t", "status": "Replicating", "processedRowCount": 6}
    ]


def test_a_slow_mirror_takes_files_when_told_and_may_purge_them(onelake: OneLake) -> None:
    mirror = Mirror(onelake, eager=False, purges=True)
    put(onelake, "t/_metadata.json", METADATA)
    for number in (1, 2, 3):
        put(onelake, f"t/{name(number)}", parquet(id=[number]))
    mirror.consume(most=2)
    assert onelake.names("t") == [name(2), name(3), "_metadata.json"]
    mirror.consume()
    mirror.check()
    assert [row["id"] for row in mirror.tables["t"].rows] == [1, 2, 3]


def test_a_folder_that_goes_ends_the_table_and_a_new_one_begins_another(onelake: OneLake) -> None:
    mirror = Mirror(onelake)
    for lifetime in (1, 2):
        put(onelake, "t/_metadata.json", METADATA)
        put(onelake, f"t/{name(1)}", parquet(id=[lifetime]))
        assert mirror.tables["t"].rows == [{"id": lifetime, "__rowMarker__": 0}]
        delete(onelake, "t")
        assert "t" not in mirror.tables
    mirror.check()
    assert [table.rows[0]["id"] for table in mirror.dropped] == [1, 2]


def test_hidden_names_are_none_of_its_business(onelake: OneLake) -> None:
    mirror = Mirror(onelake)
    put(onelake, "_scratchPad/1/1/x.parquet", b"")
    put(onelake, "_partnerEvents.json", b"{}")
    put(onelake, "t/_metadata.json", METADATA)
    put(onelake, "t/_half", b"half")
    mirror.check()
    assert mirror.tables["t"].rows == []


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ([(name(1), parquet(id=[1]))], "data before _metadata.json"),
        ([("_metadata.json", METADATA), (name(2), parquet(id=[1]))], r"a gap: \[1\] are missing before 2"),
        ([("_metadata.json", METADATA), (name(1), b"")], "file 1 is empty"),
        ([("_metadata.json", METADATA), (name(1), parquet(id=[1])[:-9])], "file 1 is not whole Parquet"),
        ([("_metadata.json", METADATA), *[(name(1), parquet(id=[n])) for n in (1, 2)]], "file 1 was changed"),
        ([("_metadata.json", METADATA), *[(name(n), parquet(id=[n])) for n in (1, 2, 1)]], "number 1 came back"),
        ([("_metadata.json", METADATA), ("stray.parquet", b"x")], "names that mirroring does not know"),
        ([("_metadata.json", METADATA), ("_metadata.json", b'{"keyColumns": ["x"]}')], "keyColumns changed"),
        ([("_metadata.json", b"{")], "_metadata.json is not whole JSON"),
        (
            [("_metadata.json", METADATA), (name(1), parquet(id=[1])), (name(2), parquet(id=["x"]))],
            "column id was int64, is string",
        ),
        (
            [("_metadata.json", METADATA), (name(1), parquet(id=[1], note=["x"])), (name(2), parquet(note=["x"]))],
            "column id is missing",
        ),
    ],
)
def test_what_would_stop_a_table_is_a_problem(onelake: OneLake, steps: list[tuple[str, bytes]], problem: str) -> None:
    mirror = Mirror(onelake)
    for path, content in steps:
        put(onelake, f"t/{path}", content, replace=True)
    with pytest.raises(AssertionError, match=f"t: {problem}"):
        mirror.check()


def test_a_visible_file_that_somebody_takes_away_is_a_problem(onelake: OneLake) -> None:
    mirror = Mirror(onelake)
    put(onelake, "t/_metadata.json", METADATA)
    put(onelake, f"t/{name(1)}", parquet(id=[1]))
    delete(onelake, f"t/{name(1)}")
    with pytest.raises(AssertionError, match="visible files went away"):
        mirror.check()
