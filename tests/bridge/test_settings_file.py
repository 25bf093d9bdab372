"""The YAML file of a bridge: every problem at once, with its line and path, before anything connects."""

from pathlib import Path

import pytest

from app.yaml_text import BadFile
from mirrorgate.errors import MirrorgateError
from mirrorgate_bridge.kafka.settings import BridgeSettings, read_settings
from tests.support.processes import REPOSITORY

ENVIRONMENT = {"MIRRORGATE_API_KEY": "mg_key", "WHERE": "http://gateway:8480"}

GOOD = r"""
gateway: {url: "${WHERE}", key: "${MIRRORGATE_API_KEY}"}
kafka: {cluster: prod, settings: {bootstrap.servers: "b:9092"}}
topics:
  - {topic: orders, format: rows, table: sales.orders}
  - {pattern: 'cdc\.(?P<s>\w+)', format: arcion, table: "{s}.{header.table}", start: 2026-01-01T00:00:00Z}
"""


def read(tmp_path: Path, text: str) -> BridgeSettings:
    (tmp_path / "bridge.yaml").write_text(text)
    return read_settings(tmp_path / "bridge.yaml", ENVIRONMENT)


def problems(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(BadFile) as caught:
        read(tmp_path, text)
    return [caught.value.detail, *(problem["detail"] for problem in caught.value.errors)]


def test_a_file_takes_values_of_the_environment_and_defaults(tmp_path: Path) -> None:
    settings = read(tmp_path, GOOD)
    assert (settings.gateway.url, settings.gateway.key, settings.kafka.group) == (
        "http://gateway:8480",
        "mg_key",
        "mirrorgate",
    )
    orders, cdc = settings.topics
    assert (orders.fixed_table("orders"), orders.start, orders.on_reject) == ("sales.orders", "earliest", "stop")
    assert cdc.record_table("cdc.crm", None, [("table", b"people")]) == "crm.people"
    assert settings.batch.max_bytes == 4 * 2**20


def test_every_problem_is_reported_at_once_with_its_path(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        r"""
gateway: {url: gateway, key: "${NO_SUCH_VARIABLE}"}
kafka: {clutser: prod, settings: {group.id: x}}
topics:
  - {topic: orders, pattern: orders, format: json}
  - {pattern: '(', format: rows, table: "{schema}"}
  - {topic: a, format: arcion, value: avro, parameters: {dry_run: true}, on_reject: skip_to_file}
batch: {max_bytes: 4 mb, max_age: 500ms}
helth: {}
""",
    )
    for expected in (
        "line 2: gateway.url: is not an address",
        "the environment variable NO_SUCH_VARIABLE is not set",
        "Did you mean cluster?",
        "kafka.settings.'group.id': is set by the bridge",
        "topic and pattern are both given",
        "topics[0].format: 'json' is not a valid value",
        "topics[1].pattern: is not a regular expression",
        "topics[2].parameters.dry_run: is set by the bridge",
        "the value or key needs a schema registry",
        "on_reject is skip_to_file, and no folder is given",
        "batch.max_bytes: '4 mb' is not a size",
        "helth: unknown key",
        "Did you mean health?",
    ):
        assert any(expected in detail for detail in found), (expected, found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "the file is empty"),
        ("gateway: [", "not a single YAML document"),
        (GOOD.replace("{s}.{header.table}", "{t}"), "{t} is not a group of the pattern"),
        (GOOD.replace("table: sales.orders", "key: auto"), "rows name no table"),
        (
            GOOD.replace("format: rows", "format: debezium, key: none, parameters: {tombstones: delete}"),
            "tombstones=delete needs the keys of the records, and key is none",
        ),
        (GOOD.replace("2026-01-01T00:00:00Z", "yesterday"), "neither earliest nor latest"),
        (GOOD.replace("cluster: prod", "cluster: a/b"), "kafka.cluster: is not a name"),
        (GOOD.replace('bootstrap.servers: "b:9092"', "client.id: b"), "'bootstrap.servers' is missing"),
        (GOOD.replace('"b:9092"', '" "'), "'bootstrap.servers' is missing"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in " ".join(problems(tmp_path, text))


def test_a_missing_file_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(MirrorgateError) as caught:
        read_settings(tmp_path / "absent.yaml", {})
    assert "cannot be read" in caught.value.detail
    assert "path" in caught.value.remedy


def test_the_example_file_is_valid() -> None:
    assert len(read_settings(REPOSITORY / "deploy" / "bridge" / "kafka.yaml", ENVIRONMENT).topics) == 2
