"""Arcion addresses: published hashes, several tables in a request, and the table that the request names."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.domain.model.names import TableName
from app.formats.arcion.messages import address_hashes, decode_arcion, java_hash


def body(*addresses: dict[str, Any]) -> bytes:
    return json.dumps([{"tableName": address, "opType": "I", "exists": {}} for address in addresses]).encode()


@pytest.mark.parametrize(
    ("text", "expected"), [(None, 0), ("", 0), ("a", 97), ("hello", 99162322), ("\U0001f600", 1772899)]
)
def test_a_text_has_the_hash_that_java_gives_it(text: str | None, expected: int) -> None:
    assert java_hash(text) == expected


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[3] / "demo/samples/arcion").glob("*.json")), ids=lambda p: p.stem
)
def test_the_published_hashes_are_right(path: Path) -> None:
    address = json.loads(path.read_bytes())["tableName"]
    space = address["namespace"]
    expected = (space["hash"], address["hash"])
    assert address_hashes(space["catalog"], space["schema"], address["name"]) == expected
    assert decode_arcion(path.read_bytes()).wrong_hashes == 0


def test_wrong_hashes_are_counted_and_change_nothing() -> None:
    space = {"catalog": None, "schema": "io_blitzz", "hash": 696406511}
    right = {"namespace": space, "name": "region", "hash": -821029210}
    changes = decode_arcion(
        body(right, right | {"hash": 1}, right | {"namespace": space | {"hash": 1}}, right | {"hash": None}, right)
    )
    assert changes.wrong_hashes == 2
    assert {str(entry.source.table) for entry in changes} == {"io_blitzz.region"}


def test_messages_of_several_tables_keep_their_order() -> None:
    names = ["b", "a", "b", "c"]
    changes = decode_arcion(body(*({"name": name} for name in names)))
    assert [(str(entry.source.table), entry.change.index) for entry in changes] == [(n, i) for i, n in enumerate(names)]


def test_a_catalog_beside_a_schema_is_told_with_the_address() -> None:
    spaces = [{"catalog": "c", "schema": "s"}, {"catalog": None, "schema": "s"}, {"catalog": "c", "schema": None}]
    decoded = decode_arcion(body(*({"name": "t", "namespace": space} for space in spaces)))
    assert [(entry.source.catalog, str(entry.source.table)) for entry in decoded] == [
        ("c", "s.t"),
        (None, "s.t"),
        (None, "c.t"),
    ]


def test_an_override_takes_every_message_whatever_its_address() -> None:
    table = TableName.parse("sales.orders")
    addresses = [{"name": "a.b/c"}, {"name": "t", "namespace": {"catalog": "x", "schema": None}}]
    assert [entry.source.table for entry in decode_arcion(body(*addresses), table)] == [table, table]
