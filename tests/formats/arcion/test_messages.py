"""Native Arcion messages: documented samples, addresses, bare rows, duplicate keys and limits of values."""

import json
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.model.change import Change, Image, Operation
from app.domain.model.names import SourceName, TableName
from app.domain.rows.landing_rows import LandingRows, landing_rows
from app.domain.rows.row_rules import RowRules
from app.formats.arcion.csv import decode_arcion_csv
from app.formats.arcion.messages import AddressedChange, address_hashes, decode_arcion, facts_of_cursor, java_hash
from app.formats.rows.columnar import RowReader, RowsBody
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.parameters import CsvLayout, CsvMode
from tests.fuzz.decoders import as_columns, check_paths_agree
from tests.support.rejections import rejected
from tests.support.samples.schemas import schema_of

NATION = TableName("tpch_scale_0_01", "nation")
REGION = TableName("io_blitzz", "region")


def nation(name: str) -> Image:
    return {"n_comment": "Testing comment", "n_nationkey": "100", "n_regionkey": "2", "n_name": name}


SAMPLES: dict[str, tuple[TableName, Operation, Image | None, Image | None]] = {
    "snapshot_insert": (NATION, Operation.INSERT, None, nation("Testing name")),
    "snapshot_update": (NATION, Operation.UPDATE, nation("Testing name"), nation("Updating test name")),
    "snapshot_delete": (NATION, Operation.DELETE, nation("Updating test name"), None),
    "realtime_insert": (REGION, Operation.INSERT, None, {"r_regionkey": "10", "r_comment": "India", "r_name": "India"}),
    "realtime_update": (REGION, Operation.UPDATE, {"r_regionkey": "10"}, {"r_regionkey": "10", "r_comment": "USA"}),
    "realtime_delete": (REGION, Operation.DELETE, {"r_regionkey": "10"}, None),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_documented_sample_is_this_change(samples: Path, name: str) -> None:
    body = (samples / "arcion" / f"{name}.json").read_bytes()
    table, operation, before, after = SAMPLES[name]
    cursor = json.loads(body)["cursor"]
    facts = facts_of_cursor(cursor)
    known = {"source_position": cursor, "source_time": json.loads(cursor)["timestamp"], "position_at": "/cursor"}
    known |= {"log_position": facts.log_position, "extracted_time": facts.extracted}
    known["operation_count"] = sum(json.loads(json.loads(body)["operationcount"]).values())
    change = Change(0, operation, before, after, "/before", "/after", **known)
    assert decode_arcion(body) == [AddressedChange(SourceName(None, table.schema, table.table), change)]


def test_all_documented_samples_make_one_request(samples: Path) -> None:
    bodies = [(samples / "arcion" / f"{name}.json").read_bytes() for name in SAMPLES]
    decoded = decode_arcion(b"".join(bodies))
    found = [(entry.source.table, entry.change.operation) for entry in decoded]
    assert found == [entry[:2] for entry in SAMPLES.values()]
    assert [entry.change.index for entry in decoded] == list(range(6))


def message(operation: str = "I", **members: Any) -> dict[str, Any]:
    defaults = {"tableName": {"name": "t"}, "opType": operation, "before": None, "after": None, "exists": {}}
    return defaults | members


def decoded(*messages: dict[str, Any]) -> list[AddressedChange]:
    return decode_arcion(json.dumps(list(messages)).encode())


def images(**members: Any) -> tuple[Image | None, Image | None]:
    [entry] = decoded(message(**members))
    return entry.change.before, entry.change.after


@pytest.mark.parametrize(
    ("namespace", "table"),
    [
        (None, "t"),
        ({"catalog": None, "schema": None}, "t"),
        ({"catalog": "c", "schema": "s"}, "s.t"),
        ({"catalog": "c", "schema": None}, "c.t"),
        ({"catalog": "c", "schema": "default_schema"}, "c.t"),
        ({"catalog": None, "schema": "default_schema"}, "t"),
        ({"catalog": None, "schema": "s", "hash": 1}, "s.t"),
        ({"catalog": "c"}, "c.t"),
    ],
)
def test_the_namespace_gives_the_schema_folder(namespace: dict[str, Any] | None, table: str) -> None:
    [entry] = decoded(message(tableName={"namespace": namespace, "name": "t"}))
    assert str(entry.source.table) == table


@pytest.mark.parametrize(
    ("operation", "flag", "before", "after", "expected"),
    [
        ("I", 0, None, None, (None, {})),
        ("I", 0, None, "placeholder", (None, {})),
        ("I", 1, "null", "new", (None, {"a": "new"})),
        ("I", 1, None, "null", (None, {"a": None})),
        ("U", 0, "old", "new", ({}, {})),
        ("U", 1, "null", "new", ({}, {"a": "new"})),
        ("U", 2, "old", "null", ({"a": "old"}, {"a": "old"})),
        ("U", 3, "old", "new", ({"a": "old"}, {"a": "new"})),
        ("U", 3, "null", "null", ({"a": None}, {"a": None})),
        ("D", 0, "null", "null", ({}, None)),
        ("D", 2, "old", "null", ({"a": "old"}, None)),
        ("D", 3, "old", "new", ({"a": "old"}, None)),
        ("R", 1, "null", "new", ({}, {"a": "new"})),
        ("R", 3, "old", "new", ({"a": "old"}, {"a": "new"})),
    ],
)
@pytest.mark.parametrize("spelling", [int, str])
@pytest.mark.parametrize("extra", [{}, {"b": 0}], ids=["alone", "beside one that is not given"])
def test_exists_says_which_images_hold_a_column(
    operation: str, flag: int, before: Any, after: Any, expected: Any, spelling: type, extra: dict[str, int]
) -> None:
    exists = {column: spelling(given) for column, given in {"a": flag, **extra}.items()}
    assert images(operation=operation, before={"a": before}, after={"a": after}, exists=exists) == expected


@pytest.mark.parametrize(
    ("operation", "flag", "code", "pointer"),
    [
        ("I", 2, Code.EXISTS_MISMATCH, "/exists/a"),
        ("I", 3, Code.EXISTS_MISMATCH, "/exists/a"),
        ("D", 1, Code.EXISTS_MISMATCH, "/exists/a"),
        ("U", 4, Code.BAD_EXISTS, "/exists/a"),
        ("U", -1, Code.BAD_EXISTS, "/exists/a"),
        ("U", "", Code.BAD_EXISTS, "/exists/a"),
        ("U", "01", Code.BAD_EXISTS, "/exists/a"),
        ("U", "3 ", Code.BAD_EXISTS, "/exists/a"),
        ("U", 10**30, Code.BAD_EXISTS, "/exists/a"),
    ],
)
def test_exists_that_cannot_be_is_rejected(operation: str, flag: Any, code: Code, pointer: str) -> None:
    with rejected(places=[(code, 0, pointer, "a")]):
        decoded(message(operation, before={"a": "x"}, after={"a": "y"}, exists={"a": flag}))


@pytest.mark.parametrize(
    ("operation", "before", "after", "flag", "pointer"),
    [
        ("I", None, None, 1, "/after/a"),
        ("I", None, {}, 1, "/after/a"),
        ("U", {"a": "1"}, {}, 3, "/after/a"),
        ("U", {}, {"a": "1"}, 3, "/before/a"),
        ("U", {}, {}, 2, "/before/a"),
        ("D", None, None, 2, "/before/a"),
        ("I", None, {"a": "1", "b": "2"}, 1, "/exists/b"),
        ("U", {"a": "1", "b": "2"}, {"a": "1"}, 3, "/exists/b"),
        ("D", {"a": "1", "b": "2"}, None, 2, "/exists/b"),
    ],
)
def test_exists_that_disagrees_with_the_images_is_rejected(
    operation: str, before: Any, after: Any, flag: int, pointer: str
) -> None:
    with rejected(places=[(Code.EXISTS_MISMATCH, 0, pointer, pointer[-1])]):
        decoded(message(operation, before=before, after=after, exists={"a": flag}))


def test_only_the_four_letters_null_are_sql_null() -> None:
    values = {"a": "null", "b": "NULL", "c": "", "d": " null", "e": None, "f": 0}
    _, after = images(after=values, exists=dict.fromkeys(values, 1))
    assert after == {"a": None, "b": "NULL", "c": "", "d": " null", "e": None, "f": 0}


@pytest.mark.parametrize(
    ("cursor", "position"),
    [(None, None), ("", ""), ("not JSON {", "not JSON {"), ('{"v":2}', '{"v":2}'), ({"v": 2}, '{"v":2}')],
)
def test_the_cursor_is_kept_as_it_came(cursor: Any, position: str | None) -> None:
    [entry] = decoded(message(cursor=cursor))
    assert entry.change.source_position == position


@pytest.mark.parametrize("operation", ["i", "X", "", "INSERT", "T"])
def test_another_operation_is_rejected(operation: str) -> None:
    with rejected(places=[(Code.BAD_OP, 0, "/opType", None)]):
        decoded(message(operation))


@pytest.mark.parametrize("name", ["", "x" * 256])
def test_a_table_without_a_name_or_with_a_long_one_is_rejected(name: str) -> None:
    with rejected(places=[(Code.BAD_NAME, 0, "/tableName", None)]):
        decoded(message(tableName={"name": name}))


@pytest.mark.parametrize("missing", ["tableName", "opType"])
def test_a_message_without_a_required_key_is_rejected(missing: str) -> None:
    with rejected(places=[(Code.MALFORMED_MESSAGE, 0, "", None)]):
        decoded({name: value for name, value in message().items() if name != missing})


def native(operation: str, **members: Any) -> dict[str, Any]:
    return {name: value for name, value in message(operation, **members).items() if name != "exists"}


@pytest.mark.parametrize("exists", [{}, {"exists": None}], ids=["left out", "null"])
def test_without_exists_a_column_is_given_where_an_image_has_it(exists: dict[str, None]) -> None:
    cursor = {"log": "binlog.000007", "position": 4}
    update = native("U", before={"id": "1"}, after={"note": "null"}, cursor=cursor) | exists
    found = [entry.change for entry in decoded(native("I", after={"id": 1}) | exists, update)]
    assert [(change.before, change.after) for change in found] == [(None, {"id": 1}), ({"id": "1"}, {"note": None})]
    assert found[1].source_position == '{"log":"binlog.000007","position":4}'


@pytest.mark.parametrize(("operation", "image"), [("I", "before"), ("D", "after")])
def test_without_exists_an_image_that_cannot_be_is_rejected(operation: str, image: str) -> None:
    with rejected(places=[(Code.EXISTS_MISMATCH, 0, f"/{image}", None)]):
        decoded(native(operation, **{image: {"id": "1"}}))


def test_every_wrong_message_is_named() -> None:
    with rejected() as rejection:
        decoded(message(), message("?"), message(), message(exists={"a": 9}), message(tableName={"name": ""}))
    assert [place[:2] for place in rejection.places] == [(Code.BAD_OP, 1), (Code.BAD_EXISTS, 3), (Code.BAD_NAME, 4)]


def test_a_pointer_escapes_the_column() -> None:
    with rejected(places=[(Code.BAD_EXISTS, 0, "/exists/a~1b~0c", "a/b~c")]):
        decoded(message(exists={"a/b~c": 9}))


def test_a_rejection_never_repeats_a_value() -> None:
    for wrong in (
        message("canary-7391"),
        message(exists={"a": "7391"}),
        message("D", before={"a": "canary-7391"}, exists={"a": 1}),
    ):
        with rejected() as rejection:
            decoded(wrong)
        assert "7391" not in rejection.text


SAMPLE_FILES = sorted((Path(__file__).parents[2] / "samples" / "arcion").glob("*.json"))


def changes(sample: dict[str, Any], numbers: frozenset[str]) -> list[Change]:
    if "csv" in sample:
        layout = sample["csv"]
        columns = tuple(layout.get("columns", ()))
        declared = CsvLayout(CsvMode(layout["mode"]), columns, layout.get("header", False))
        return decode_arcion_csv("\n".join(sample["lines"]).encode(), declared, numbers).changes
    return [entry.change for entry in decode_arcion(json.dumps(sample["messages"]).encode())]


def landed(sample: dict[str, Any]) -> list[list[Any]]:
    declared = sample["table"]
    schema = schema_of(declared["columns"], declared["keys"])
    numbers = frozenset(name for name, declared_type in declared["columns"].items() if declared_type != "string")
    return [list(row.values()) for row in landing_rows(changes(sample, numbers), schema).batch.to_pylist()]


@pytest.mark.parametrize("path", SAMPLE_FILES, ids=lambda path: path.stem)
def test_a_sample_makes_its_rows_or_errors(path: Path) -> None:
    sample = json.loads(path.read_bytes())
    if "rows" in sample:
        assert landed(sample) == sample["rows"]
        return
    with rejected() as rejection:
        landed(sample)
    places = rejection.places or [(rejection.code, None, None, None)]
    assert [list(place) for place in places][: len(sample["errors"])] == sample["errors"]


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


TABLE: Final = TableName("shop", "items")
RULES: Final = RowRules(schema_of({"id": "int64", "name": "string", "price": "decimal(9,2)"}, ["id"], ["id"]))
MESSAGE: Final = {"tableName": {"namespace": {"schema": "shop"}, "name": "items"}, "opType": "D", "before": {"id": "1"}}
VALUES: Final = {
    "id": st.sampled_from(["1", "2", 3, "null"]),
    "name": st.sampled_from(["lamp", "null", None, "", 'a"\\', "ä", 5, True]),
    "price": st.sampled_from(["5.00", 5, None, "null", "many"]),
    "__op__": st.just("delete"),
}


def exact(body: bytes) -> LandingRows:
    changes = [entry.change for entry in decode_arcion(body, rows_of=TABLE)]
    return landing_rows(changes, RULES)


def columnar(body: bytes) -> LandingRows | None:
    content = RowsBody(body, Operation.SNAPSHOT, 100, is_plain=False)
    return as_columns(lambda: RowReader(RULES.schema.names).read([content]), RULES)


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.just(["id", "name", "price"]) | st.lists(st.sampled_from([*VALUES]), unique=True))
    return {name: draw(VALUES[name]) for name in names}


@given(all_rows=st.lists(rows(), min_size=1, max_size=5), lines=st.booleans())
def test_both_paths_read_bare_rows_alike(all_rows: list[dict[str, Any]], *, lines: bool) -> None:
    body = "\n".join(map(json.dumps, all_rows)).encode() if lines else json.dumps(all_rows).encode()
    with suppress(RejectedInput):
        assert check_paths_agree(partial(exact, body), columnar(body)).has_snapshots


def test_usual_rows_take_the_columnar_path_and_the_text_null_is_null() -> None:
    found = columnar(b'[{"id":"1","name":"null","price":"5.00"},{"id":"2","name":"null2","price":"null"}]')
    assert [row["name"] for row in found.batch.to_pylist()] == [None, "null2"]


def test_rows_and_messages_of_changes_may_be_in_one_body() -> None:
    body = json.dumps([{"id": "1", "name": "null"}, MESSAGE]).encode()
    first, second = decode_arcion(body, rows_of=TABLE)
    assert (first.change.operation, first.change.after) == (Operation.SNAPSHOT, {"id": "1", "name": None})
    assert (second.change.operation, second.change.index) == (Operation.DELETE, 1)
    assert first.source.table == second.source.table == TABLE


def test_a_wrong_message_beside_rows_is_named_by_its_index() -> None:
    with rejected(places=[(Code.MALFORMED_MESSAGE, 1, "/opType", None)]):
        decode_arcion(json.dumps([{"id": "1"}, MESSAGE | {"opType": 1}]).encode(), rows_of=TABLE)


@pytest.mark.parametrize("body", [b'{"id": "1"}', b'[{"tableName": {"name": "t"}, "opType": "I"}, {"id": "1"}]'])
def test_a_bare_row_without_a_table_is_rejected_with_what_it_needs(body: bytes) -> None:
    with rejected(Code.MALFORMED_MESSAGE) as rejection:
        decode_arcion(body)
    assert "?table=...&mode=snapshot" in rejection.text
    assert "/v1/changes/rows" in rejection.text


def arcion(after: str, more: str = "") -> str:
    return f'{{"tableName":{{"name":"t"}},"opType":"I","exists":{{"a":"1"}},"after":{after}{more}}}'


@pytest.mark.parametrize(
    ("message", "pointer"),
    [
        (arcion('{"a":"1","a":"1"}'), "/after/a"),
        (arcion('{"a":"1","\\u0061":"1"}'), "/after/a"),
        (arcion('{"a":"1","a" :"1"}'), "/after/a"),
        (arcion('{"a":"1"}', ',"before":{},"before":{}'), "/before"),
        (arcion('{"a":"1"}', ',"unknown":[0,{"x":1,"x":1}]'), "/unknown"),
        (arcion('{"a":"1"}', ',"un/known":{"x~":1,"x~":1}'), "/un~1known"),
        (arcion('{"a":{"x":1,"x":2}}'), "/after/a"),
        (arcion('{"a":[{"y":{"x":1,"x":2}}]}'), "/after/a"),
        (arcion('{"a/b":1,"a/b":2}'), "/after/a~1b"),
        (arcion('{"a":"1","a":"1"}', ',"cursor":"\\u0022:"'), "/after/a"),
        (arcion('{"a":"1","a":"1"}', ',"cursor":"\\"\\u003A"'), "/after/a"),
    ],
)
@pytest.mark.parametrize("framing", ["{0}{1}", "{0}\n{1}", "[{0},\n{1}]"])
def test_a_repeated_key_is_named(message: str, pointer: str, framing: str) -> None:
    with rejected(places=[(Code.DUPLICATE_MEMBER, 1, pointer, None)]):
        decode_arcion(framing.format(arcion('{"a":"1"}'), message).encode())


@pytest.mark.parametrize("count", [1, 400])
def test_the_prefilter_sees_one_repeated_key_among_many_messages(count: int) -> None:
    clean = [arcion('{"a":"12:30 text"}')] * count
    assert len(decode_arcion("\n".join(clean).encode())) == count
    with rejected(places=[(Code.DUPLICATE_MEMBER, count, "/after/a", None)]):
        decode_arcion("\n".join([*clean, arcion('{"a":"1","a":"2"}')]).encode())


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"x":', "}")])
def test_values_nest_to_a_limit(opening: str, closing: str) -> None:
    def nested(levels: int) -> bytes:
        return arcion(f'{{"a":{opening * levels}1{closing * levels}}}').encode()

    assert len(decode_arcion(nested(62))) == 1
    for levels in (63, 500, 5_000):
        with rejected(Code.MALFORMED_JSON):
            decode_arcion(nested(levels))


@pytest.mark.parametrize("value", ["1e6145", "-1E-6146", "1e999999999999999999999"])
def test_an_absurd_exponent_is_rejected(value: str) -> None:
    with rejected(Code.MALFORMED_JSON):
        decode_arcion(arcion(f'{{"a":{value}}}').encode())


def test_a_byte_in_a_rejection_counts_from_the_start_of_the_request() -> None:
    with rejected() as rejection:
        decode_arcion(b'\xef\xbb\xbf \n[{"a":tru}]')
    assert "(byte 12)" in rejection.detail
