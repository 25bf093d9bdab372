"""Options for reading values: `source_timezone`, `binary_encoding`, and column overrides."""

from datetime import UTC, datetime

import pytest

from mirrorgate.errors import Code
from tests.support.ingest_harness import IngestHarness
from tests.support.rejections import rejected
from tests.support.samples.messages import arcion, data, metadata
from tests.support.samples.schemas import schema_of

TIMED = schema_of({"id": "int64", "at": "timestamp"}, ["id"], ["id"])
BYTES = schema_of({"id": "int64", "a": "binary", "b": "binary"}, ["id"], ["id"])
NUMERIC = {"id": "INT8", "n": {"type": "NUMERIC", "precision": 0, "scale": 0}}


def test_timestamps_without_an_offset_are_of_the_sources_zone(harness: IngestHarness) -> None:
    harness.put("t", TIMED, source_timezone="Europe/Berlin")
    text = "2024-07-15 12:00:00.5"
    harness.arcion(arcion("t", None, {"id": "1", "at": text}))
    harness.replicate(data("INSERT", {"id": 2, "at": text}), table="t")
    assert harness.landed("t", "at") == [[0, datetime(2024, 7, 15, 10, 0, 0, 500_000, tzinfo=UTC)]] * 2


def test_a_local_time_that_the_clocks_skip_is_a_bad_value(harness: IngestHarness) -> None:
    harness.put("t", TIMED, source_timezone="Europe/Berlin")
    good, bad = ({"id": "1", "at": f"2024-03-31 0{hour}:30:00"} for hour in (1, 2))
    with rejected(places=[(Code.BAD_VALUE, 1, "/after/at", "at")]) as rejection:
        harness.arcion(arcion("t", None, good), arcion("t", None, bad))
    assert "source_timezone skip it" in rejection.detail


@pytest.mark.parametrize("zone", ["Europe/Atlantis", "", "../UTC", "/etc/localtime", "+01:00"])
def test_a_zone_that_there_is_not_is_rejected(harness: IngestHarness, zone: str) -> None:
    with rejected(places=[(Code.BAD_OPTION, None, "/options/source_timezone", None)]):
        harness.put("t", TIMED, source_timezone=zone)


def test_bytes_are_hexadecimal_or_base64_by_table_and_by_column(harness: IngestHarness) -> None:
    harness.put("t", BYTES, binary_encoding="base64", columns={"b": {"encoding": "hex"}})
    harness.put("u", BYTES, columns={"b": {"encoding": "base64"}})
    harness.arcion(
        arcion("t", None, {"id": "1", "a": "AQI=", "b": "0102"}),
        arcion("u", None, {"id": "1", "a": "0102", "b": "AQI="}),
    )
    assert harness.landed("t", "a", "b") == harness.landed("u", "a", "b") == [[0, b"\x01\x02", b"\x01\x02"]]


def test_a_numeric_without_precision_lands_as_the_override_says(harness: IngestHarness) -> None:
    keyed = schema_of({"id": "int64"}, ["id"], ["id"])
    with rejected(places=[(Code.INCOMPATIBLE_SCHEMA, 0, "/message/tableStructure/tableColumns/n", "n")]):
        harness.replicate(metadata("S.T", NUMERIC))
    for table, of, landed in (("S.F", "float64", 0.1), ("S.S", "string", "0.1")):
        harness.put(table, keyed, columns={"n": {"type": of}})
        harness.replicate(metadata(table, NUMERIC), data("INSERT", {"id": 1, "n": "0.1"}, schema_id=f"{table}-1"))
        assert harness.landed(table, "n") == [[0, landed]]


def test_an_override_decides_type_and_nullability_of_what_is_declared(harness: IngestHarness) -> None:
    options = {"columns": {"name": {"type": "json", "nullable": False}, "id": {"type": "string"}}}
    table = harness.put("S.T", schema_of({"id": "int64", "name": "string"}, ["id"], ["id"]), **options).table
    assert table.schema == schema_of({"id": "string", "name": "json"}, ["id"], ["id", "name"])
    again = harness.replicate(metadata("S.T", {"id": "INT8", "name": "NCLOB"}))
    assert (again.receipts, harness.table("S.T").schema) == ([], table.schema)
    harness.arcion(arcion("S.T", None, {"id": "007", "name": "{}"}))
    with rejected(places=[(Code.NULL_VALUE, 0, "/after/name", "name")]):
        harness.arcion(arcion("S.T", None, {"id": "007", "name": "null"}))


@pytest.mark.parametrize("with_columns", [True, False])
def test_an_override_cannot_change_the_type_of_a_column_that_there_is(
    harness: IngestHarness, with_columns: bool
) -> None:
    before = harness.put("t", TIMED).table
    with rejected(Code.INCOMPATIBLE_SCHEMA):
        harness.put("t", TIMED if with_columns else None, columns={"at": {"type": "string"}})
    assert harness.table("t") == before


def test_metadata_of_another_type_is_no_conflict_once_overridden(harness: IngestHarness) -> None:
    harness.put("S.T", schema_of({"id": "int64", "n": "int32"}, ["id"], ["id"]))
    wider = metadata("S.T", {"id": "INT8", "n": "INT8"})
    with rejected(places=[(Code.INCOMPATIBLE_SCHEMA, 0, "/message/tableStructure", None)]):
        harness.replicate(wider)
    harness.put("S.T", columns={"n": {"type": "int32"}})
    harness.replicate(wider, data("INSERT", {"id": 1, "n": 5}, schema_id="S.T-1"))
    assert harness.landed("S.T", "n") == [[0, 5]]


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"source_timezone": "Europe/Berlin"}, "source_timezone"),
        ({"binary_encoding": "base64"}, "binary_encoding"),
        ({"columns": {"a": {"encoding": "base64"}}}, "columns/a/encoding"),
    ],
)
def test_how_values_are_read_stays_while_they_are_kept_as_they_were_written(
    harness: IngestHarness, options: dict[str, object], place: str
) -> None:
    harness.put("t", BYTES, partial_updates="complete")
    with rejected(places=[(Code.BAD_OPTION, None, f"/options/{place}", None)]):
        harness.put("t", partial_updates="complete", **options)
    assert harness.put("t", **options).outcome == "configured"
