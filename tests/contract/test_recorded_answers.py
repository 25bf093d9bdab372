"""The contract shows for each call an answer that a real gateway gave. `MIRRORGATE_RECORD=1` records them again."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
import sqlalchemy as sa
import yaml
from deltalake import write_deltalake

from app.api.openapi.document import RECORDED_ANSWERS
from app.api.operations import table_operations as loads
from app.staging.mirror import store_reports
from app.staging.tables.registry import quarantine_table
from tests.api.calls import Gateway, insert, own_gateway
from tests.contract.reading import examples, load_contract, mistakes, operations, schemas_within
from tests.support.gateway_parts import current
from tests.support.mirror_reports import report_of
from tests.support.postgres.ledger import owned_now, publish_all
from tests.support.samples.arrow_streams import stream

TABLE: Final = "tpch.nation"
COLUMNS: Final = {"n_nationkey": "int32", "n_name": "string"}
OPTIONS: Final = {"row_images": "on", "dead_letters": "accept", "seed_file": False}
AT: Final = {"generation": 1}
ROWS: Final = pa.table({"n_nationkey": pa.array([7], pa.int32()), "n_name": ["GERMANY"]})
SECRETS: Final = {"key": "mg_5f1c2d3e4a5b6c7d_<secret>", "signing_secret": "<signing secret>"}
"""A recorded answer shows these instead of secrets."""


class Recorder:
    """Makes calls by the names of their operations, and keeps the last answer of each operation and status."""

    def __init__(self, gateway: Gateway) -> None:
        contract = load_contract()
        self.gateway = gateway
        self.calls = {str(operation): (operation.method, operation.path) for operation in operations(contract)}
        self.bodies: dict[str, Any] = {}
        for example in examples(contract):
            if example.content_type == "application/json":
                self.bodies.setdefault(str(example.operation), example.value)
        self.answers: dict[str, Any] = {}

    def call(self, name: str, status: int, /, *, query: dict[str, Any] | None = None, **more: Any) -> Any:
        """Make a call with the first example of its body, unless `more` has another; return the answer."""
        method, path = self.calls[name]
        values = {"table": TABLE} | {key: more.pop(key) for key in [*more] if f"{{{key}}}" in path}
        if not more.keys() & {"json", "content"} and name in self.bodies:
            more["json"] = self.bodies[name]
        answer = self.gateway.request(method, path.format(**values), params=query or {}, **more)
        assert answer.status_code == status, (name, answer.text)
        if not answer.content:
            return None
        found = answer.json()
        shown = {key: SECRETS.get(key, value) if value else value for key, value in found.items()}
        self.answers[f"{name} {status}"] = shown
        return found


def register(gateway: Gateway, name: str, **options: Any) -> str:
    gateway.register(name, COLUMNS, ["n_nationkey"], **(OPTIONS | options)).raise_for_status()
    return name


def record_keys(recorder: Recorder) -> None:
    key = recorder.call("create_key", 201)["id"]
    recorder.call("update_key", 200, key_id=key)
    recorder.call("rotate_key", 200, key_id=key)
    recorder.call("list_keys", 200)


def record_changes(recorder: Recorder) -> None:
    wanted = recorder.bodies["register_table"] | {"options": OPTIONS}
    recorder.call("register_table", 201, json=wanted)
    for name in ("arcion_changes", "replicate_changes", "debezium_changes", "rows"):
        query = {"table": TABLE} if name == "rows" else {}
        recorder.call(f"post_{name}", 200, query=query | {"dry_run": "true"})
        recorder.call(f"post_{name}", 202, query=query)
    arrow: dict[str, Any] = {
        "content": stream(ROWS),
        "headers": {"Content-Type": "application/vnd.apache.arrow.stream"},
    }
    arrow["headers"] |= {
        "Mirrorgate-Producer": "orders",
        "Mirrorgate-Producer-Sequence": "1",
        "Mirrorgate-Producer-Position": "line 17",
    }
    loaded = register(recorder.gateway, "tpch.loaded")
    for status in (202, 200):  # the second one is a repeat
        recorder.call("post_arrow_rows", status, query={"table": loaded}, **arrow)
    recorder.call("get_producer", 200, producer="orders")
    wider = [*wanted["columns"], {"name": "n_comment", "type": "string"}]
    recorder.call("register_table", 200, json=wanted | {"columns": wider})


def record_state(recorder: Recorder, engine: sa.Engine, target: Path) -> None:
    publish_all(engine, owned_now(engine, TABLE))
    store_reports(engine, [report_of(engine, current(engine, TABLE))])
    path = target.joinpath(*TABLE.split("."))
    write_deltalake(str(path), ROWS)
    recorder.call("get_batch", 200, generation=1, sequence=1)
    for name in ("list_tables", "get_table", "list_table_files", "get_table_mirror", "list_table_rows"):
        recorder.call(name, 200)
    for name in ("get_table_schema", "get_table_chain", "check_table_source"):
        recorder.call(name, 200)


def record_dead_letters(recorder: Recorder) -> None:
    wrong = [insert(TABLE, n_nationkey=key, n_name="FRANCE") for key in ("six", "seven", "eight", "nine")]
    recorder.gateway.arcion(*wrong, on_reject="dead_letter").raise_for_status()
    letters = recorder.call("list_dead_letters", 200)["letters"]
    first = letters[0]["id"]
    recorder.call("get_dead_letter", 200, letter_id=first)
    corrected = insert(TABLE, n_nationkey="6", n_name="FRANCE")
    recorder.call("replay_dead_letter", 202, letter_id=first, json=corrected)
    recorder.call("replay_dead_letters", 202)
    recorder.call("discard_dead_letter", 200, letter_id=letters[1]["id"])
    recorder.call("discard_dead_letters", 200, query=AT | {"through": letters[-1]["id"]})


def record_loads(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = {"mode": "full", "load": "5b7c2a52-1f0f-4c5e-9d43-0f5a3a1f6d2e"}
    load = recorder.call("begin_load", 201, json=wanted)["load"]
    recorder.call("begin_load", 200, json=wanted)
    recorder.call("list_loads", 200)
    recorder.call("get_load", 200, load=load)
    monkeypatch.setattr("app.staging.loads.DELETES_PER_BATCH", 1)
    monkeypatch.setattr(loads.LoadOperation.complete, "__kwdefaults__", {"seconds": 0.0})
    recorder.call("complete_load", 202, load=load)
    monkeypatch.undo()
    recorder.call("complete_load", 200, load=load)
    recorder.call("abort_load", 200, load=recorder.call("begin_load", 201, json={"mode": "append"})["load"])


def record_operations(recorder: Recorder, engine: sa.Engine) -> None:
    gateway = recorder.gateway
    for name, status in (("pause_table", 200), ("resume_table", 200), ("flush_table", 202)):
        recorder.call(name, status, query=AT)
    recorder.call("repair_file", 202, query=AT, number=1)
    with engine.begin() as connection:
        quarantine_table(connection, current(engine, TABLE).table_id, "foreign_file: 00000000000000000009.parquet")
    recorder.call("release_table", 200, query=AT)
    recorder.call("list_table_events", 200)
    late = register(gateway, "tpch.supplier", row_images="off")
    gateway.rows(late, {"n_nationkey": 1, "n_name": "x"}).raise_for_status()
    gateway.put(f"/v1/tables/{late}", json={"options": {"row_images": "on"}}).raise_for_status()
    recorder.call("backfill_row_images", 202, table=late, query=AT)
    recorder.call("cancel_backfill", 200, table=late, query=AT)
    for name in ("drop_table", "recreate_table", "rename_table"):
        recorder.call(name, 202, table=register(gateway, f"tpch.{name}"), query=AT)
    columns = [{"name": "number", "type": "int64", "nullable": False, "from": "n_nationkey"}]
    plan = {"columns": columns, "key_columns": ["number"]}
    recorder.call("rebuild_table", 202, table=register(gateway, "tpch.rebuild_table"), query=AT, json=plan)


def record_the_rest(recorder: Recorder) -> None:
    recorder.call("set_layout", 201, name="orders_flat")
    recorder.call("set_layout", 200, name="orders_flat", json=recorder.bodies["set_layout"] | {"table": "meta.table"})
    recorder.call("get_layout", 200, name="orders_flat")
    recorder.call("list_layouts", 200)
    recorder.gateway.get("/v1/tables/unknown")
    recorder.call("list_audit", 200, query={"limit": 3})
    for name in ("get_health", "get_readiness", "get_gateway_status"):
        recorder.call(name, 200)


def shape(value: Any) -> Any:
    """Return which keys a value has, at all depths; lists by their first element."""
    if isinstance(value, dict):
        return {key: shape(member) for key, member in sorted(value.items())}
    return [shape(value[0])] if isinstance(value, list) and value else None


def test_the_answers_of_the_contract_are_those_of_a_real_gateway(
    database_url: str, engine: sa.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with own_gateway(database_url, mirror_target=str(tmp_path)) as gateway:
        recorder = Recorder(gateway)
        record_keys(recorder)
        record_changes(recorder)
        record_state(recorder, engine, tmp_path)
        record_dead_letters(recorder)
        record_loads(recorder, monkeypatch)
        record_operations(recorder, engine)
        record_the_rest(recorder)
    answers = recorder.answers
    if os.environ.get("MIRRORGATE_RECORD"):
        written = yaml.safe_dump(answers, sort_keys=True, allow_unicode=True, width=110)
        RECORDED_ANSWERS.write_text(f"# Written by tests/contract/test_recorded_answers.py.\n{written}", "utf-8")
    recorded = yaml.safe_load(RECORDED_ANSWERS.read_text("utf-8"))
    assert shape(recorded) == shape(json.loads(json.dumps(answers))), "record the answers again: MIRRORGATE_RECORD=1"


def test_every_call_shows_an_answer_that_fits_its_schema_and_describes_it() -> None:
    contract = load_contract()
    for operation in operations(contract):
        for status, response in operation.responses.items():
            assert response["description"] not in {"Successful Response", "Created", ""}, f"{operation} {status}"
            answer = response.get("content", {}).get("application/json")
            if not status.startswith("2") or answer is None:
                continue
            assert mistakes(contract, answer["schema"], answer["example"]) == [], f"{operation} {status}"


def undescribed(name: str, schema: Any) -> Iterator[str]:
    for where, part in schemas_within(schema, name):
        for key, member in part.get("properties", {}).items():
            if not member.get("description"):
                yield f"{where}.{key}"


def test_every_property_and_parameter_is_described() -> None:
    contract = load_contract()
    schemas = contract["components"]["schemas"].items()
    assert [place for name, schema in schemas for place in undescribed(name, schema)] == []
    for operation in operations(contract):
        assert [parameter["name"] for parameter in operation.parameters if not parameter.get("description")] == []
