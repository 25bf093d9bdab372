"""Any bytes sent as a Replicate request give landing rows or a rejection with a code."""

import json
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from app.errors import RejectedInput
from tests.formats.replicate.tables_in_memory import Tables

SAMPLES = [
    json.loads(path.read_bytes())
    for path in sorted((Path(__file__).parents[2] / "samples" / "replicate").glob("[!t]*.json"))
]
TEXTS = st.text(max_size=4) | st.sampled_from(["0F", "10", "00", "one", "two", "UPDATE", "DELETE", "NUMERIC", "UINT8"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every key and element, the outermost first."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for name, inner in members for place in ((*path, name), *places(inner, (*path, name)))]


@st.composite
def requests(draw: st.DrawFn) -> tuple[list[Any], bytes]:
    """Draw earlier messages, and a request with keys or bytes that no tool wrote."""
    sample = json.loads(json.dumps(draw(st.sampled_from(SAMPLES))))
    messages = sample["messages"]
    for _ in range(draw(st.integers(0, 2))):
        *outer, name = draw(st.sampled_from(places(messages) or [(0,)]))
        parent = messages
        for step in outer:
            parent = parent[step]
        if len(parent):
            parent[name] = json.loads(json.dumps(draw(VALUES | st.sampled_from(sample["messages"]))))
    text = json.dumps(messages).encode()
    if draw(st.booleans()):
        start = draw(st.integers(0, len(text)))
        text = text[:start] + draw(st.binary(max_size=3)) + text[start + draw(st.integers(0, 3)) :]
    return sample.get("earlier", []), text


@given(requests(), st.sampled_from([None, "S.T"]))
@example(([], b'{"headers":{"operation":"INSERT","columnMask":"' + b"F" * 100_000 + b'"},"data":{}}'), "t")
@example(
    ([], b'{"tableStructure":{"tableColumns":{"a":{"ordinal":999999999999,"type":""}}},"lineage":{"table":"t"}}'), "t"
)
@example(
    (
        [{"tableStructure": {"tableColumns": {"a": {"ordinal": 1, "type": "UINT8"}}}, "lineage": {"table": "t"}}],
        b'{"headers":{"operation":"INSERT"},"data":{"a":1e-99999999}}',
    ),
    "t",
)
def test_no_bytes_give_anything_but_rows_or_a_rejection(sent: tuple[list[Any], bytes], table: str | None) -> None:
    earlier, body = sent
    tables = Tables()
    for message in earlier:
        tables.post(json.dumps(message).encode())
    try:
        tables.post(body, table)
    except RejectedInput as rejection:
        assert str(rejection.code)
