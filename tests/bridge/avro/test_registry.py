"""The client of the schema registry, over HTTP: credentials, references, and what each failure means."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mirrorgate.errors import Code, Misconfigured, TemporarilyUnavailable
from mirrorgate_bridge.kafka.registry import (
    MAX_REFERENCE_DEPTH,
    MAX_REFERENCES,
    RegisteredDecoder,
    SchemaRegistry,
    decoder_of,
)
from mirrorgate_bridge.kafka.settings import RecordRejected
from tests.support.forms.avro import encoded
from tests.support.http.stand_in import StandIn, serving
from tests.support.kafka import RegistryDouble, framed, registry_double
from tests.support.samples.replicate_avro import envelope

STRING = b"\x04ab"  # Avro's "ab"


class Clients(list[SchemaRegistry]):
    """The clients of a test, which are closed after it."""

    def open(self, url: str, **others: Any) -> SchemaRegistry:
        self.append(SchemaRegistry(url, **{"pause": lambda _: None, **others}))
        return self[-1]


@pytest.fixture
def clients() -> Iterator[Clients]:
    opened = Clients()
    yield opened
    for client in opened:
        client.close()


@pytest.fixture
def registry() -> Iterator[RegistryDouble]:
    with registry_double() as double:
        yield double


@pytest.fixture
def client(registry: RegistryDouble, clients: Clients) -> SchemaRegistry:
    return clients.open(registry.url)


def test_the_double_answers_by_id_and_by_subject_with_the_codes_of_a_real_registry(registry: RegistryDouble) -> None:
    with httpx.Client(base_url=registry.url, trust_env=False) as client:
        first = client.post("/subjects/orders-value/versions", json={"schema": '"string"'}).json()
        assert first == {"id": registry.register("orders-value", '"string"')} == {"id": 1}
        assert registry.register("orders-value", {"type": "object"}, "JSON") == 2
        assert client.get("/schemas/ids/1").json() == {"schema": '"string"'}
        assert client.get("/schemas/ids/2").json() == {"schema": '{"type":"object"}', "schemaType": "JSON"}
        assert client.get("/subjects/orders-value/versions/latest").json()["id"] == 2
        assert client.get("/schemas/ids/3").json()["error_code"] == 40403
        assert client.get("/subjects/other/versions/1").json()["error_code"] == 40401
        registry.require_basic("user", "secret")
        assert client.get("/subjects").status_code == 401
        assert client.get("/subjects", auth=("user", "secret")).json() == ["orders-value"]
        registry.away = True
        assert client.get("/subjects", auth=("user", "secret")).status_code == 503
    assert framed(258, b"x") == b"\x00\x00\x00\x01\x02x"


def test_each_schema_is_asked_for_once(registry: RegistryDouble, client: SchemaRegistry) -> None:
    registry.register("orders-value", '"string"')
    decoder = RegisteredDecoder(client, "rows", "avro", "avro")
    for _ in range(3):
        assert decoder.decode("orders", None, framed(1, STRING)) == (None, b'"ab"')
        assert decoder.decode("orders", framed(1, STRING), None) == (b'"ab"', None)
    assert registry.requests == ["/schemas/ids/1"] * 2  # as a value and as a key


def test_an_unknown_id_is_named_after_it_was_asked_for_again(registry: RegistryDouble, client: SchemaRegistry) -> None:
    with pytest.raises(RecordRejected, match="no schema with the id 258"):
        RegisteredDecoder(client, "rows", "avro", "auto").decode("orders", None, framed(258, b""))
    assert len(registry.requests) == 3


def test_a_schema_that_a_follower_learns_of_late_is_found(registry: RegistryDouble, clients: Clients) -> None:
    def pause(_: float) -> None:
        registry.register("orders-value", '"string"')

    assert clients.open(registry.url, pause=pause).schema(1).text == '"string"'


def test_a_registry_that_does_not_answer_is_asked_again_later(registry: RegistryDouble, clients: Clients) -> None:
    registry.register("orders-value", '"string"')
    record = framed(1, STRING)
    decoder = RegisteredDecoder(clients.open(registry.url), "rows", "avro", "auto")
    registry.away = True
    with pytest.raises(TemporarilyUnavailable, match="answers 503") as caught:
        decoder.decode("orders", None, record)
    assert caught.value.code is Code.SOURCE_UNAVAILABLE
    registry.away = False
    assert decoder.decode("orders", None, record) == (None, b'"ab"')
    registry.away = True
    assert decoder.decode("orders", None, record) == (None, b'"ab"')
    with pytest.raises(TemporarilyUnavailable, match="does not answer"):
        clients.open("http://127.0.0.1:9").schema(1)


def test_a_second_address_answers_when_the_first_is_away(registry: RegistryDouble, clients: Clients) -> None:
    registry.register("orders-value", '"string"')
    assert clients.open(f"http://127.0.0.1:9, {registry.url}/").schema(1).kind == "AVRO"


def test_wrong_credentials_and_another_server_are_not_the_fault_of_a_record(
    registry: RegistryDouble, clients: Clients
) -> None:
    registry.register("orders-value", '"string"')
    registry.require_basic("user", "secret")
    clients.open(registry.url, username="user", password="secret").check()
    for wrong in ({}, {"username": "user", "password": "no"}, {"password": "token"}):
        with pytest.raises(TemporarilyUnavailable, match="rejects the credentials") as caught:
            clients.open(registry.url, **wrong).schema(1)
        assert "secret" not in str(caught.value)

    class Page(StandIn):
        def respond(self) -> None:
            self.answer(200, b"<html>", Content_Type="text/html")

    with serving(Page) as url, pytest.raises(TemporarilyUnavailable, match="does not answer as a schema registry"):
        clients.open(url).schema(1)
    with pytest.raises(Misconfigured, match="cannot be read"):
        clients.open(registry.url, certificate=Path("missing.pem"))


def test_references_are_read_the_innermost_first(registry: RegistryDouble, client: SchemaRegistry) -> None:
    city = {"type": "record", "name": "x.City", "fields": [{"name": "n", "type": "string"}]}
    home = {"type": "record", "name": "x.Home", "fields": [{"name": "city", "type": "x.City"}]}
    row = {"type": "record", "name": "x.Row", "fields": [{"name": "home", "type": "x.Home"}]}
    registry.register("city", city)
    registry.register("home", home, references=[{"name": "x.City", "subject": "city", "version": 1}])
    identity = registry.register("row", row, references=[{"name": "x.Home", "subject": "home", "version": 1}])
    found = client.schema(identity)
    assert [json.loads(text)["name"] for text in found.references] == ["x.City", "x.Home"]
    _, value = RegisteredDecoder(client, "rows", "avro", "auto").decode("t", None, framed(identity, STRING))
    assert value == b'{"home":{"city":{"n":"ab"}}}'
    identity = registry.register("row2", row, references=[{"name": "x.Home", "subject": "gone/1", "version": 4}])
    with pytest.raises(RecordRejected, match="gone/1 version 4"):
        client.schema(identity)


def test_each_reference_is_asked_for_once_however_many_schemas_use_it(
    registry: RegistryDouble, client: SchemaRegistry
) -> None:
    names = [f"x.R{number}" for number in range(30)]
    for number, name in enumerate(names):
        used = names[max(0, number - 2) : number]
        fields = [{"name": f"f{at}", "type": one} for at, one in enumerate(used)]
        references = [{"name": one, "subject": one, "version": 1} for one in used]
        identity = registry.register(name, {"type": "record", "name": name, "fields": fields}, references=references)
    found = client.schema(identity)
    assert [json.loads(text)["name"] for text in found.references] == names[:-1]
    assert len(registry.requests) == len({*registry.requests}) == 30


@pytest.mark.parametrize(("subjects", "requests"), [(["a"], 2), (["a", "b"], 3), (["b", "c", "a"], 4)])
def test_schemas_that_refer_to_themselves_are_rejected(
    registry: RegistryDouble, client: SchemaRegistry, subjects: list[str], requests: int
) -> None:
    for subject, used in zip(subjects, [*subjects[1:], subjects[0]], strict=True):
        references = [{"name": used, "subject": used, "version": 1}]
        registry.register(subject, {"type": "record", "name": subject, "fields": []}, references=references)
    with pytest.raises(RecordRejected, match=f"{subjects[1 % len(subjects)]} version 1 refers to itself"):
        client.schema(1)
    assert len(registry.requests) <= requests + 1


def test_the_references_of_a_schema_are_limited_in_number_depth_and_bytes(
    registry: RegistryDouble, client: SchemaRegistry
) -> None:
    def schema_using(names: Iterable[str]) -> int:
        references = [{"name": name, "subject": name, "version": 1} for name in names]
        return registry.register("using", f'"{len(references)}{references[0]}"', references=references)

    for number in range(MAX_REFERENCES + 1):
        registry.register(f"s{number}", f'"{number}"')
    assert len(client.schema(schema_using(f"s{number}" for number in range(MAX_REFERENCES))).references) == 500
    registry.requests.clear()
    with pytest.raises(RecordRejected, match="too many references"):
        client.schema(schema_using(f"s{number}" for number in range(MAX_REFERENCES + 1)))
    assert len(registry.requests) == MAX_REFERENCES + 1

    for number in range(MAX_REFERENCE_DEPTH + 2):
        below = [{"name": "x", "subject": f"d{number - 1}", "version": 1}] if number else []
        registry.register(f"d{number}", f'"d{number}"', references=below)
    assert client.schema(schema_using([f"d{MAX_REFERENCE_DEPTH - 1}"]))
    with pytest.raises(RecordRejected, match="too many references"):
        client.schema(schema_using([f"d{MAX_REFERENCE_DEPTH}"]))

    for number in range(3):
        registry.register(f"large{number}", f'"{number}{"x" * (6 * 2**20)}"')
    assert len(client.schema(schema_using(["large0", "large1"])).references) == 2
    with pytest.raises(TemporarilyUnavailable, match="larger than"):
        client.schema(schema_using(["large0", "large1", "large2"]))


def test_json_schema_has_json_behind_its_id_and_protobuf_is_rejected(
    registry: RegistryDouble, client: SchemaRegistry
) -> None:
    registry.register("orders-value", {"type": "object"}, "JSON")
    registry.register("orders-value", 'syntax = "proto3";', "PROTOBUF")
    decoder = RegisteredDecoder(client, "rows", "json_schema", "auto")
    assert decoder.decode("t", b'"k"', framed(1, b'{\n"a": 1}')) == (b'"k"', b'{"a":1}')
    with pytest.raises(RecordRejected, match="PROTOBUF") as caught:
        decoder.decode("t", None, framed(2, b"\x00\x0a"))
    assert "Let the producer write Avro" in caught.value.remedy


def test_a_record_that_no_confluent_serializer_wrote_is_rejected_with_the_way_out(client: SchemaRegistry) -> None:
    decoder = RegisteredDecoder(client, "rows", "avro", "avro")
    for key, value, remedy in (
        (None, b'{"a": 1}', "value: json"),
        (b"text", None, "key: json"),
        (None, b"atMSG\x04DT", "format: replicate"),
    ):
        with pytest.raises(RecordRejected) as caught:
            decoder.decode("orders", key, value)
        assert remedy in caught.value.remedy


def test_replicates_own_envelope_becomes_json_without_a_registry() -> None:
    decoder = decoder_of("replicate", "avro", "auto", None, has_table=False)
    whole = envelope("DT", b"\x00\x01", schema_id="7b1c")
    assert decoder.decode("jobs", None, whole) == (
        None,
        b'{"magic":"atMSG","type":"DT","messageSchemaId":"7b1c","messageSchema":null,"message":"AAE="}',
    )
    for wrong, reason in ((whole[:-1], "cut off"), (whole + b"x", "bytes follow"), (whole[:5] + b"\x01", "negative")):
        with pytest.raises(RecordRejected, match=reason):
            decoder.decode("jobs", None, wrong)
    with pytest.raises(RecordRejected, match="file has none"):
        decoder.decode("jobs", None, framed(1, b"\x00"))


def test_a_replicate_message_is_addressed_to_the_table_of_its_schema_unless_the_bridge_names_one(
    registry: RegistryDouble, client: SchemaRegistry
) -> None:
    schema = {
        "type": "record",
        "name": "com.attunity.queue.msg.task-1.DBO.ORDERS.DataRecord",
        "fields": [{"name": "data", "type": "string"}, {"name": "headers", "type": "string"}],
    }
    registry.register("t", schema)
    record = encoded(schema, {"data": "a", "headers": "b"})
    addressed = b'{"schema":"DBO","table":"ORDERS","data":"a","headers":"b"}'
    for has_table, expected in ((False, addressed), (True, b'{"data":"a","headers":"b"}')):
        decoder = decoder_of("replicate", "avro", "json", client, has_table=has_table)
        assert decoder.decode("t", None, record) == (None, expected)


def test_a_replicate_message_with_its_table_is_addressed_once(registry: RegistryDouble, client: SchemaRegistry) -> None:
    written = {"schema": "DBO", "table": "ORDERS", "data": "a", "headers": "b"}
    fields = [{"name": name, "type": "string"} for name in written]
    schema = {"type": "record", "name": "com.attunity.queue.msg.task-1.DBO.ORDERS.DataRecord", "fields": fields}
    registry.register("t", schema)
    decoder = decoder_of("replicate", "avro", "json", client, has_table=False)
    assert decoder.decode("t", None, encoded(schema, written)) == (
        None,
        json.dumps(written, separators=(",", ":")).encode(),
    )
