"""Valid bodies of either format, written in any way that JSON allows, with or without a duplicate key."""

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

NAMES = st.sampled_from(
    ["a", "b", 'c"', "d:", "\\", "e\\\\", "f\\\\\\", ":", '":', " :", "[", "é", "\U0001f600", ""]
) | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3)
TEXTS = NAMES | st.sampled_from(
    ["12:30", "10 :30", '{"a":1}', '{"a" : [1, [2]]}', '\\":', '\\\\":', '"\t:', ",[", "[[[[", "\\u0000", "\x7f", "!:"]
)
SCALARS = st.none() | st.booleans() | st.integers() | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2), max_leaves=3
)
IMAGES = st.dictionaries(NAMES, TEXTS | VALUES, max_size=3)
BLANKS = st.sampled_from(["", "", " ", "\n", "\t ", "\r\n"])

Member = tuple[Any, ...]
"""The path of a member."""


def some_of(members: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy for objects in which each of these keys can be absent."""
    return st.fixed_dictionaries({}, optional=members)


@st.composite
def arcion_messages(draw: st.DrawFn) -> dict[str, Any]:
    after = draw(IMAGES)
    before = st.none() | st.just({}) | st.just(dict.fromkeys(after, "null"))
    json_text = TEXTS | st.dictionaries(NAMES, VALUES, max_size=2)
    space = some_of({"catalog": st.just("c"), "schema": st.just("s"), "hash": st.just(1)})
    address = some_of({"namespace": st.just(draw(space)) | st.none(), "hash": st.integers(0, 9) | st.none()})
    return {
        "tableName": {"name": "t"} | draw(address),
        "opType": "I",
        "after": after,
        "exists": dict.fromkeys(after, draw(st.sampled_from(["1", 1]))),
        **draw(some_of({"before": before, "cursor": json_text, "operationcount": json_text, "other": VALUES})),
    }


HEADERS = {
    "changeSequence": st.sampled_from(["", "20260105093000000000000000000000001"]),
    "timestamp": st.just("2026-01-05T09:30:00.000"),
    "streamPosition": TEXTS,
    "transactionId": st.just("0A0B"),
    "changeMask": st.sampled_from(["0F", "", None]),
    "columnMask": st.sampled_from(["0F", "", None]),
    "externalSchemaId": st.just("7") | st.none(),
    "transactionEventCounter": st.integers(1, 9) | st.none(),
    "transactionLastEvent": st.booleans() | st.none(),
}


@st.composite
def replicate_bodies(draw: st.DrawFn) -> dict[str, Any]:
    """Metadata, or data with its headers as an object or flattened."""
    headers = {"operation": "UPDATE"} | draw(some_of(HEADERS))
    data = {"data": draw(IMAGES)} | draw(
        some_of({"beforeData": IMAGES | st.none(), "schema": st.just("S"), "table": st.just("t"), "other": VALUES})
    )
    match draw(st.sampled_from(["metadata", "headers", "flattened"])):
        case "headers":
            return data | {"headers": headers}
        case "flattened":
            return data | {f"headers_{name}": value for name, value in headers.items()}
    return draw(metadata())


@st.composite
def metadata(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(["a", 'b"', "c:", "d\\", "é"]), min_size=1, max_size=3, unique=True))
    numbers = {"length": st.just(9), "precision": st.just(0), "scale": st.just(0), "primaryKeyPosition": st.just(0)}
    facts = some_of(numbers | {"nullable": st.booleans(), "other": VALUES})
    avro = json.dumps({"type": "record", "fields": [{"name": name, "type": ["null", "string"]} for name in names]})
    return {
        "lineage": {"table": "t"}
        | draw(some_of({"server": TEXTS, "task": TEXTS, "tableVersion": st.just(1), "timestamp": TEXTS})),
        "tableStructure": {
            "tableColumns": {name: {"ordinal": at, "type": "STRING"} | draw(facts) for at, name in enumerate(names, 1)}
        },
        **draw(some_of({"schemaId": st.just("one"), "dataSchema": st.just(avro) | TEXTS})),
    }


@st.composite
def replicate_messages(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a body enveloped, as `{message:{…}}` or bare."""
    body = draw(replicate_bodies())
    kind = "MD" if "tableStructure" in body else "DT"
    facts = some_of({"headers": st.none(), "messageSchemaId": st.none() | st.just("one"), "messageSchema": TEXTS})
    return draw(
        st.sampled_from([body, {"message": body}, {"magic": "atMSG", "type": kind} | draw(facts) | {"message": body}])
    )


def members_of(value: Any, path: Member = ()) -> list[Member]:
    """Return the paths of all keys."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    own = [(*path, name) for name in value] if isinstance(value, dict) else []
    return own + [member for step, below in inner for member in members_of(below, (*path, step))]


@st.composite
def writers(draw: st.DrawFn) -> Callable[..., str]:
    """Draw a style of writing JSON: its whitespace, and which characters are escaped, in any letter case."""
    blanks = [draw(BLANKS) for _ in range(5)]
    by_number = draw(st.sampled_from(["", '"', ":", '":', "\\", "abcdefg", '":[ ,é\U0001f600']))
    as_ascii, upper = draw(st.booleans()), draw(st.booleans())

    def text(value: str) -> str:
        return '"' + "".join(map(character, value)) + '"'

    def character(value: str) -> str:
        if value in by_number:
            halves = value.encode("utf-16-be").hex()
            halves = halves.upper() if upper else halves
            return "".join(f"\\u{halves[at : at + 4]}" for at in range(0, len(halves), 4))
        return json.dumps(value, ensure_ascii=as_ascii)[1:-1]

    def write(value: Any, twice: Member | None = None, path: Member = ()) -> str:
        """Write a value; the key at `twice` is written first and again in its position."""
        before, colon, after, comma, end = blanks
        if isinstance(value, str):
            return text(value)
        if isinstance(value, list):
            elements = [write(inner, twice, (*path, at)) for at, inner in enumerate(value)]
            return f"[{before}" + f"{comma},{before}".join(elements) + f"{end}]"
        if not isinstance(value, dict):
            return json.dumps(value)
        names = [name for name in value if (*path, name) == twice] + list(value)
        members = [f"{text(name)}{colon}:{after}{write(value[name], twice, (*path, name))}" for name in names]
        return f"{{{before}" + f"{comma},{before}".join(members) + f"{end}}}"

    return write


@st.composite
def bodies(draw: st.DrawFn, messages: st.SearchStrategy[Any], twice: bool) -> tuple[bytes, int]:
    """Draw a body in any framing and its number of messages; with `twice`, one message has a duplicate key."""
    parts = draw(st.lists(messages, min_size=1, max_size=3))
    at = draw(st.integers(0, len(parts) - 1))
    member = draw(st.sampled_from(members_of(parts[at]))) if twice else None
    write = draw(writers())
    texts = [write(part, member if index == at else None) for index, part in enumerate(parts)]
    separator = draw(st.sampled_from(["", "\n", "\r\n \n", ",", " ,\n"]))
    text = separator.join(texts)
    return (f"[{text}]" if "," in separator else text).encode(), len(parts)
