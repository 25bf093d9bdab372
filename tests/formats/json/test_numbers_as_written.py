"""Numbers in `string` and `json` columns land as written, also from a row image."""

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from app.domain.model.change import Change
from app.domain.model.table import BatchSequence
from app.domain.model.table_options import PartialUpdates, TableOptions
from app.domain.model.written_values import keep_minus_zeros
from app.domain.rows.image_overlay import ImageOverlay
from app.domain.rows.landing_rows import landing_rows
from app.domain.rows.row_rules import RowRules
from app.formats.arcion.messages import decode_arcion
from app.formats.replicate.messages import decode_replicate
from mirrorgate.errors import Code
from tests.support.rejections import rejected
from tests.support.samples.changes import insert, update
from tests.support.samples.schemas import active_table, schema_of

SCHEMA: Final = schema_of({"id": "int64", "s": "string", "j": "json", "f": "float64"}, ["id"], ["id"])
COMPLETE: Final = TableOptions(partial_updates=PartialUpdates.COMPLETE)
WRITTEN: Final = (
    *("1e5", "1E5", "1E+5", "1.0e-7", "0.0000001", "-0.00000012", "0.0000000", "-0", "-0.0", "-0e0", "0e-7"),
    *("1.50", "0.1", "9007199254740993", "1e-400", "123456789012345678901234567890.10"),
)


def arcion_body(number: str, *, blank: str) -> bytes:
    values = f'{{"id":"1","s":{blank}{number},"j":{{"v":{blank}{number},"l":[{number},"-0, -0"]}},"f":0}}'
    exists = '{"id":"1","s":"1","j":"1","f":"1"}'
    return f'{{"tableName":{{"name":"t"}},"opType":"I","after":{values},"exists":{exists}}}'.encode()


def replicate_body(number: str, *, blank: str) -> bytes:
    values = f'{{"id":1,"s":{blank}{number},"j":{{"v":{blank}{number},"l":[{number},"-0, -0"]}},"f":0}}'
    return f'{{"data":{values},"headers":{{"operation":"INSERT"}}}}'.encode()


def of_arcion(body: bytes) -> list[Change]:
    return [entry.change for entry in decode_arcion(body)]


def of_replicate(body: bytes) -> list[Change]:
    return [message.change for message in decode_replicate(body).changes]


@pytest.mark.parametrize("blank", ["", " "])
@pytest.mark.parametrize(("write", "read"), [(arcion_body, of_arcion), (replicate_body, of_replicate)])
@pytest.mark.parametrize("number", WRITTEN)
def test_a_number_lands_in_text_columns_byte_for_byte(
    number: str, write: Callable[..., bytes], read: Callable[[bytes], list[Change]], blank: str
) -> None:
    overlay = ImageOverlay(active_table(SCHEMA, COMPLETE), {})

    def landed(changes: list[Change]) -> list[dict[str, Any]]:
        rows, layer = overlay.complete(landing_rows(changes, RowRules.of(overlay.table)))
        overlay.adopt(layer, BatchSequence(1))
        return rows.batch.to_pylist()

    for changes in (read(write(number, blank=blank)), [update(None, {"id": 1, "f": 1})], [update(None, {"id": 1})]):
        [row] = landed(changes)
        assert row["s"] == number
        assert row["j"] == f'{{"v":{number},"l":[{number},"-0, -0"]}}'


@pytest.mark.parametrize("body", [b'{"a":"x: -0, y","b":-0}', b'[{"a": -0 ,"b":"\\": -0,"}]', b'{"a":[1e-0,-0]}'])
def test_only_minus_zeros_outside_of_texts_are_written_otherwise(body: bytes) -> None:
    kept = keep_minus_zeros(body)
    assert kept != body
    assert json.loads(kept, parse_float=str, parse_int=str) == json.loads(
        body, parse_float=str, parse_int=lambda text: "-0.0e-0000000" if text == "-0" else text
    )


@pytest.mark.parametrize(("write", "read"), [(arcion_body, of_arcion), (replicate_body, of_replicate)])
@pytest.mark.parametrize("separator", [b"", b"\n", b" "])
def test_minus_zeros_keep_their_sign_in_every_framing(
    write: Callable[..., bytes], read: Callable[[bytes], list[Change]], separator: bytes
) -> None:
    for change in read(separator.join([write("-0", blank=" ")] * 2)):
        assert str(change.after["s"]) == "-0"


@pytest.mark.parametrize("value", [{"a": [1, None]}, [], ["x"]])
def test_an_object_or_list_lands_in_a_string_column_as_json_text(value: Any) -> None:
    [row] = landing_rows([insert({"id": 1, "s": value, "j": None, "f": None})], SCHEMA).batch.to_pylist()
    assert json.loads(row["s"]) == value


@pytest.mark.parametrize("column_type", ["float32", "float64"])
@pytest.mark.parametrize("as_text", [True, False])
def test_a_number_that_is_not_zero_never_lands_as_zero(column_type: str, *, as_text: bool) -> None:
    schema = schema_of({"id": "int64", "f": column_type}, ["id"])
    [change] = of_arcion(
        b'{"tableName":{"name":"t"},"opType":"I","after":{"id":1,"f":%s},"exists":{"id":1,"f":1}}'
        % (b'"-1e-400"' if as_text else b"-1e-400")
    )
    with rejected() as rejection:
        landing_rows([change], schema)
    assert [(code, column) for code, _, _, column in rejection.places] == [(Code.BAD_VALUE, "f")]
    zeros = [insert({"id": 1, "f": zero}) for zero in ("0", "-0.0", "0e-999", "0.000", 0)]
    assert [row["f"] for row in landing_rows(zeros, schema).batch.to_pylist()] == [0.0] * 5
    texts = [insert({"id": 1, "f": zero}) for zero in ("0", "1.5", "0.0e5")]
    assert [row["f"] for row in landing_rows(texts, schema).batch.to_pylist()] == [0.0, 1.5, 0.0]
