"""The bridge of object storage with the real API: each object once and in order, and what holds it up."""

import gzip
import json
import os
from pathlib import Path

import pytest
import sqlalchemy as sa

from mirrorgate.errors import Code, Misconfigured
from mirrorgate_bridge.objects import engine
from mirrorgate_bridge.objects.settings import BatchSettings
from tests.api.calls import Gateway
from tests.api.commands import keys, lines, staged
from tests.api.objects.bridging import bridge_of, write, write_more_at_the_end
from tests.support.samples.debezium import Field, event, with_schema
from tests.support.samples.replicate_avro import data_message, metadata_message
from tests.support.waiting import wait_until

COLUMNS = {"id": "int64", "note": "string"}


@pytest.fixture
def gateway(gateway: Gateway) -> Gateway:
    """Give a gateway with a table `t`."""
    gateway.register("t", COLUMNS, ["id"]).raise_for_status()
    return gateway


def rows(first: int, count: int = 2) -> bytes:
    return b"".join(b'{"id": %d, "note": null}\n' % number for number in range(first, first + count))


def test_each_object_is_sent_once_in_the_order_of_its_table(gateway: Gateway, tmp_path: Path) -> None:
    for table in ("sales.a", "sales.b"):
        gateway.register(table, COLUMNS, ["id"])
    write(tmp_path, {"sales/a/2.ndjson.gz": gzip.compress(rows(2)), "sales/a/1/x.json": b"[" + rows(0, 1)[:-1] + b"]"})
    write(tmp_path, {"sales/a/1/y.json": rows(1, 1), "sales/b/1.csv": b"id,note\n7,x\n", "sales/a/0": b" \n"})
    write(tmp_path, {"sales/_tmp/x": b"no", "sales/a/z.tmp": b"no"})
    bridge = bridge_of(gateway.address, tmp_path, "rows", "{schema}/{table}/…")
    tables = bridge.run()
    assert (tables["sales.a"].objects, tables["sales.a"].messages) == (4, 4)
    assert (keys(gateway.engine, "sales.a"), staged(gateway.engine, "sales.b")) == ([0, 1, 2, 3], [(7, "x")])
    write(tmp_path, {"sales/a/3.json": rows(4)})
    assert bridge.run()["sales.a"].objects == 1
    assert bridge.run()["sales.a"].requests == 0
    assert keys(gateway.engine, "sales.a") == list(range(6))


def test_large_objects_are_cut_and_resume_in_their_middle_if_what_was_sent_is_unchanged(
    gateway: Gateway, tmp_path: Path
) -> None:
    bad = rows(0, 5) + b'{"id": "x", "note": null}\n' + rows(6, 4)
    write(tmp_path, {"1.json": bad, "2.json": rows(10)})
    bridge = bridge_of(gateway.address, tmp_path, "rows", table="t")
    bridge.batch = BatchSettings(max_messages=3)
    table = bridge.run()["t"]
    assert table.stop is not None
    assert (table.stop.key, table.stop.message, table.stop.error.code) == ("1.json", 5, "bad_value")
    assert keys(gateway.engine) == list(range(5))
    (told,) = bridge.events("table_stopped")
    assert told["object"] == f"{tmp_path}/1.json"
    assert (told["errors"][0]["pointer"], told["message"]) == ("/id", 5)
    write(tmp_path, {"1.json": bad.replace(b'{"id": 4,', b'{"id": 44,')})
    stop = bridge.run()["t"].stop
    assert stop is not None
    assert "has changed in its first 5 messages" in stop.error.detail
    write(tmp_path, {"1.json": bad.replace(b'"x"', b"5")})
    assert bridge.run()["t"].stop is None
    assert keys(gateway.engine) == list(range(12))


def test_a_stopped_table_holds_up_no_other_and_continues_when_its_object_is_mended_or_deleted(
    gateway: Gateway, tmp_path: Path
) -> None:
    for name in ("a", "b", "c"):
        gateway.register(name, COLUMNS, ["id"])
    odd = "a/1\udcff"  # a name that is not UTF-8
    write(tmp_path, {odd: b"no json", "a/2": rows(2), "b/1": b"{}", "b/2": rows(2), "c/1": rows(0), "c/2": rows(2)})
    write(tmp_path, {"\udcff/1": rows(0)})
    bridge = bridge_of(gateway.address, tmp_path, "rows", "{table}/…")
    tables = bridge.run()
    assert {name: table.stop and table.stop.error.code for name, table in tables.items()} == {
        "a": "malformed_json", "b": "missing_key", "c": None,
    }  # fmt: skip
    assert keys(gateway.engine, "c") == list(range(4))
    assert [line["object"] for line in bridge.events("object_left_out")] == ["\udcff/1"]
    write(tmp_path, {odd: rows(0)})
    (tmp_path / "b/1").unlink()
    bridge.run()
    assert (keys(gateway.engine, "a"), keys(gateway.engine, "b")) == ([0, 1, 2, 3], [2, 3])


def test_a_crash_stops_its_table_alone(gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(body: bytes) -> str:
        return {rows(0): "application/json"}[body]

    gateway.register("u", COLUMNS, ["id"])
    write(tmp_path, {"t/1": rows(9), "u/1": rows(0)})
    monkeypatch.setattr("mirrorgate_bridge.objects.table.content_type_of", crash)
    tables = bridge_of(gateway.address, tmp_path, "rows", "{table}/…").run()
    stop = tables["t"].stop
    assert stop is not None
    assert (stop.error.code, tables["u"].messages) == ("internal", 2)
    assert stop.error.detail.startswith("KeyError at ")


def test_dead_letters_keep_rejected_messages_and_the_table_continues(gateway: Gateway, tmp_path: Path) -> None:
    gateway.put("/v1/tables/t", json={"options": {"dead_letters": "accept"}}).raise_for_status()
    write(tmp_path, {"1": rows(0) + b'{"id": "x", "note": null}\n' + rows(3)})
    bridge = bridge_of(gateway.address, tmp_path, "rows", table="t", on_reject="dead_letter")
    status = bridge.run()["t"]
    assert (status.dead_letters, status.stop, keys(gateway.engine)) == (1, None, [0, 1, 3, 4])


@pytest.mark.parametrize("late", ["stop", "report"])
def test_an_object_behind_the_position_is_told(gateway: Gateway, tmp_path: Path, late: str) -> None:
    write(tmp_path, {"b": rows(0), "c": rows(2)})
    bridge = bridge_of(gateway.address, tmp_path, "rows", table="t", late=late)
    bridge.run()
    write(tmp_path, {"a": rows(8), "b": rows(9), "d": rows(4)})
    table = bridge.run()["t"]
    assert table.late == 2  # a new process cannot tell a changed object from a late one
    assert keys(gateway.engine) == list(range(6 if late == "report" else 4))
    if late == "stop":
        assert table.stop is not None
        assert "2 objects appeared before the last one that was read, the first is a" in table.stop.error.detail
    write(tmp_path, {"d" if late == "report" else "c": rows(7)})
    assert bridge.run()["t"].changed == 1


def test_the_order_can_be_that_of_the_times_and_a_rewritten_object_is_a_new_one(
    gateway: Gateway, tmp_path: Path
) -> None:
    write(tmp_path, {"b": rows(0), "a": rows(2)})
    for time, name in enumerate("ba"):
        os.utime(tmp_path / name, (1000 + time, 1000 + time))
    bridge = bridge_of(gateway.address, tmp_path, "rows", table="t", order="modified")
    bridge.run()
    write(tmp_path, {"b": rows(4)})
    bridge.run()
    assert bridge.run()["t"].requests == 0
    assert keys(gateway.engine) == list(range(6))


def test_an_object_waits_for_its_marker_and_holds_up_those_after_it(gateway: Gateway, tmp_path: Path) -> None:
    write(tmp_path, {"a": rows(0), "b": rows(2), "b.ok": b""})
    bridge = bridge_of(gateway.address, tmp_path, "rows", table="t", done_marker=".ok")
    with bridge.running():
        wait_until(lambda: bridge.waiting("t") == 2, within=60, what="both objects wait")
        assert keys(gateway.engine) == []
        write(tmp_path, {"a.ok": b""})
        wait_until(lambda: bridge.done("t") == 2, within=60, what="both objects are read")
    assert keys(gateway.engine) == list(range(4))


def test_the_end_of_an_object_that_is_written_while_it_is_read_is_not_taken_for_a_whole_message(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"1.csv": b"id,note\n1,x\n2,hal"})
    write_more_at_the_end(monkeypatch, tmp_path / "1.csv", b"f\n3,z\n")
    bridge = bridge_of(gateway.address, tmp_path, "rows", table="t")
    table = bridge.run()["t"]
    assert (table.stop, len(bridge.events("object_is_changing"))) == (None, 1)
    assert staged(gateway.engine, "t") == [(1, "x"), (2, "half"), (3, "z")]


def test_once_ends_when_the_gateway_rejects_the_key_or_stays_away(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_GIVE_UP_SECONDS", 0.0)
    write(tmp_path, {"1": rows(0)})
    bridge = bridge_of(str(gateway.base_url), tmp_path, "rows", table="t")
    bridge.key = "mg_0000000000000009_unknown"
    away = bridge_of("http://127.0.0.1:9", tmp_path, "rows", table="t")
    codes = [stop.error.code for one in (bridge, away) if (stop := one.run()["t"].stop) is not None]
    assert codes == [Code.UNAUTHENTICATED, Code.NOT_READY]


def test_a_source_that_is_no_folder_is_a_clear_error(api_address: str, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="is not a folder"):
        bridge_of(api_address, tmp_path / "gone", "rows", table="t").run()


def test_arcion_messages_name_their_tables_and_csv_has_its_mode_in_the_path(gateway: Gateway, tmp_path: Path) -> None:
    gateway.register("u", COLUMNS, ["id"])
    write(tmp_path / "json", {"1.json.gz": gzip.compress(b"\n".join(lines(3))), "2": b"\n".join(lines(2, 3))})
    bridge_of(gateway.address, tmp_path / "json", "arcion").run()
    write(tmp_path / "csv", {"snapshot/u/1.csv": b"id,note\n5,x\n6,y\n"})
    bridge_of(gateway.address, tmp_path / "csv", "arcion", "{mode}/{table}/…", parameters={"header": "true"}).run()
    assert (keys(gateway.engine), keys(gateway.engine, "u")) == ([0, 1, 2, 3, 4], [5, 6])


def test_debezium_events_register_the_table_and_are_read_by_path(gateway: Gateway, tmp_path: Path) -> None:
    fields: dict[str, Field] = {"id": {"type": "int64", "optional": False}}
    events = [with_schema(event("c", "sales.t", after={"id": number}), fields) for number in range(3)]
    write(tmp_path, {"sales/t/1.json": b"\n".join(json.dumps(event).encode() for event in events)})
    parameters = {"key_columns": "id"}
    bridge = bridge_of(gateway.address, tmp_path, "debezium", "{schema}/{table}/…", parameters=parameters)
    table = bridge.run()["sales.t"]
    assert (table.stop, keys(gateway.engine, "sales.t")) == (None, [0, 1, 2])


def test_objects_of_replicates_avro_envelopes_are_read_like_json(
    api_address: str, api_engine: sa.Engine, tmp_path: Path
) -> None:
    first = [metadata_message("hr.jobs", "7b1c"), data_message("hr.jobs", "7b1c", "INSERT", {"ID": 0})]
    more = [data_message("hr.jobs", "7b1c", "INSERT", {"ID": number}) for number in (1, 2)]
    write(tmp_path, {"0.bin": b"\n".join(first), "1.bin.gz": gzip.compress(b"".join(more))})
    bridge = bridge_of(api_address, tmp_path, "replicate")
    (table,) = bridge.run().values()
    assert (table.stop, table.objects, table.messages) == (None, 2, 4)
    assert keys(api_engine, "hr.jobs") == [0, 1, 2]
