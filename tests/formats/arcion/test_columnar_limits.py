"""The columnar reader declines what the exact path rejects, whatever is odd, and keeps no large bytes."""

import json
import tracemalloc
from functools import partial

import pytest

from app.domain.rows.row_rules import RowRules
from app.formats.arcion.columnar import ArcionTableReader, decode_columnar
from app.formats.json.texts import MAX_NESTED_VALUES
from mirrorgate.errors import RejectedInput
from tests.fuzz.decoders import check_paths_agree, columnar_arcion, exact_arcion
from tests.support.samples.schemas import schema_of

RULES = RowRules(schema_of({"id": "int64", "name": "string", "note": "string"}, ["id"], ["id"]))
FULL = '{"id":"1","name":"a","note":"b"}'
ALL_AFTER = '{"id":"1","name":"1","note":"1"}'


def message(more: str = "", *, exists: str = ALL_AFTER, after: str = FULL, address: str = '{"name":"t"}') -> str:
    return f'{{"tableName":{address},"opType":"I","exists":{exists},"after":{after}{more}}}'


LISTS = f"[{','.join(['[]'] * 20_000)}]"
REJECTED = {
    "a cursor beyond the exponents": message(',"cursor":1e7000'),
    "a cursor beyond all exponents": message(',"cursor":1e99999999999999999999'),
    "counts beyond all exponents": message(',"operationcount":{"a":1e99999999999999999999}'),
    "a number in an ignored image": message(',"before":{"id":1e-7000}'),
    "an ignored image has a column without a flag": message(
        ',"before":{"zz":"null"}', exists='{"id":"1","name":"1","note":"0"}', after='{"id":"1","name":"a"}'
    ),
    "the same with flags of both types": message(',"before":{"zz":"null"}', exists='{"id":"1","name":1,"note":"1"}'),
    "a flag that is no integer": message(exists='{"id":"1","name":"1","note":-0}', after='{"id":"1","name":"a"}'),
    "a hash that is no integer": message(address='{"name":"t","hash":-0}'),
    "lists in cursors": "\n".join([message(f',"cursor":{LISTS}')] * (MAX_NESTED_VALUES // 20_000 + 2)),
    "lists in addresses": "\n".join([message(address=f'{{"name":"t","x":{LISTS[:3_997]}[]]}}')] * 800),
}


@pytest.mark.parametrize("body", REJECTED.values(), ids=REJECTED.keys())
def test_what_the_exact_path_rejects_is_declined(body: str) -> None:
    with pytest.raises(RejectedInput):
        exact_arcion(body.encode(), RULES)
    assert columnar_arcion(body.encode(), RULES) is None


@pytest.mark.parametrize(
    "body",
    [
        message(address='{"name":"t","x":1e99999999999999999999}'),
        message(',"cursor":-0'),
        message(',"cursor":[-0]'),
        message(',"before":{"zz":"null"}'),
        message(',"before":{"id":1.5}'),
    ],
)
def test_an_odd_body_is_declined_or_gives_the_same_rows(body: str) -> None:
    check_paths_agree(partial(exact_arcion, body.encode(), RULES), columnar_arcion(body.encode(), RULES))


def test_a_body_beside_one_with_a_huge_number_is_read() -> None:
    good, bad = message().encode(), REJECTED["a cursor beyond all exponents"].encode()
    assert [found is not None for found in decode_columnar([good, bad, good])] == [True, False, True]


def test_caches_keep_no_large_parts_of_bodies() -> None:
    reader = ArcionTableReader.of(RULES.schema.names)
    tracemalloc.start()
    try:
        for number in range(20):
            blanks = " " * (100_000 + number)
            for body in (
                message(exists=f'{{"id":{blanks}"1","name":"1","note":"1"}}'),
                message(f',"before":{json.dumps({"id": blanks})}'),
            ):
                (decoded,) = decode_columnar([body.encode()])
                reader.read([part for _, part in decoded.parts])
            del decoded
        assert tracemalloc.get_traced_memory()[0] < 500_000
    finally:
        tracemalloc.stop()
