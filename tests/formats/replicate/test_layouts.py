"""Layouts: which are valid, and what messages of a custom format become under them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.model.change import Operation
from app.domain.model.names import SourceName
from app.formats.replicate.layouts import HEADERS as LAYOUT_HEADERS
from app.formats.replicate.layouts import NAMES as LAYOUT_NAMES
from app.formats.replicate.layouts import PARTS, MessageForm, WrongLayout, read_layout
from app.formats.replicate.messages import DataChange, ReplicateRequest, decode_replicate
from mirrorgate.errors import Code, RejectedInput
from tests.support.rejections import rejected
from tests.support.samples.messages import HEADERS, metadata

ROW, BEFORE = {"ID": 1, "NAME": "Ada"}, {"ID": 1, "NAME": "Eva"}


def decoded(layout: dict[str, Any], *messages: Any) -> ReplicateRequest:
    return decode_replicate(json.dumps(list(messages)).encode(), form=MessageForm(layout=read_layout(layout)))


def change_of(layout: dict[str, Any], message: Any) -> DataChange:
    [entry] = decoded(layout, message).changes
    return entry


def with_prefix(prefix: str, part: dict[str, Any]) -> dict[str, Any]:
    return {prefix + name: value for name, value in part.items()}


FORMS: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, str, str]]] = {
    "renamed sections": (
        {"data": "payload.row", "before_data": "/payload/old", "headers": "payload.meta"},
        {"payload": {"row": ROW, "old": BEFORE, "meta": HEADERS}},
        ("/payload/row/ID", "/payload/old/ID", "/payload/meta/changeMask"),
    ),
    "all sections flattened with prefixes": (
        {"data": "data_*", "before_data": "beforeData_*", "headers": "headers_*"},
        with_prefix("data_", ROW) | with_prefix("beforeData_", BEFORE) | with_prefix("headers_", HEADERS),
        ("/data_ID", "/beforeData_ID", "/headers_changeMask"),
    ),
    "columns beside sections": (
        {"data": "*", "before_data": "before_*", "headers": "headers"},
        ROW | with_prefix("before_", BEFORE) | {"headers": HEADERS},
        ("/ID", "/before_ID", "/headers/changeMask"),
    ),
    "columns and headers beside each other": (
        {"data": "*", "before_data": "beforeData", "headers": "*"},
        ROW | HEADERS | {"beforeData": BEFORE},
        ("/ID", "/beforeData/ID", "/changeMask"),
    ),
    "inside a message": (
        {"data": "message.data_*", "before_data": "message.old_*", "headers": "/message/h~1*"},
        {"message": with_prefix("data_", ROW) | with_prefix("old_", BEFORE) | with_prefix("h/", HEADERS)},
        ("/message/data_ID", "/message/old_ID", "/message/h~1changeMask"),
    ),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("keyed", [False, True])
def test_each_form_is_the_message_that_replicate_would_write(name: str, keyed: bool) -> None:
    layout, message, (data_at, before_at, mask_at) = FORMS[name]
    entry = change_of(layout, {"key": 1, "value": message} if keyed else message)
    usual = decode_replicate(json.dumps({"data": ROW, "beforeData": BEFORE, "headers": HEADERS}).encode()).changes[0]
    facts = ("operation", "before", "after", "source_position", "ends_transaction")
    assert [getattr(entry.change, fact) for fact in facts] == [getattr(usual.change, fact) for fact in facts]
    assert (entry.column_mask, entry.change_mask, entry.external_schema_id) == (3, 2, "77")
    at = "/value" if keyed else ""
    assert entry.headers_at.of("changeMask") == at + mask_at
    assert entry.change.position_at == at + mask_at.replace("changeMask", "changeSequence")
    assert (entry.change.after_at, entry.change.before_at) == tuple(
        at + pointer.removesuffix("/ID").replace("_ID", "_*") for pointer in (data_at, before_at)
    )


OPERATIONS = {"data": "row", "operation": "op", "operations": {"I": "insert", "u": "update", "3": "delete"}}


@pytest.mark.parametrize(
    ("written", "operation"),
    [
        ("I", Operation.INSERT),
        ("i", Operation.INSERT),
        ("U", Operation.UPDATE),
        (3, Operation.DELETE),
        ("3", Operation.DELETE),
        ("refresh", Operation.SNAPSHOT),
    ],
)
def test_operations_have_the_names_of_the_layout_and_replicates_own(written: Any, operation: Operation) -> None:
    assert change_of(OPERATIONS, {"row": ROW, "op": written}).change.operation is operation


def test_a_layout_says_where_the_table_the_schema_id_and_the_key_are() -> None:
    layout = {"data": "row", "headers": "h", "schema": "src.owner", "table": "src.name", "schema_id": "s", "key": "pk"}
    deleted = {"row": None, "h": {"operation": "DELETE"}}
    entry = change_of(layout, deleted | {"src": {"owner": "HR", "name": "JOBS"}, "s": "7", "pk": {"ID": 1}})
    assert (entry.source, entry.schema_id) == (SourceName(None, "HR", "JOBS"), "7")
    assert (entry.key, entry.key_at) == ({"ID": 1}, "/pk")
    assert change_of(layout | {"key": "pk_*"}, deleted | {"pk_ID": 1}).key == {"ID": 1}


def test_what_a_layout_does_not_name_is_not_read() -> None:
    layout = {"data": "data", "operation": "headers.operation"}
    entry = change_of(layout, {"data": ROW, "beforeData": BEFORE, "headers": HEADERS, "table": "t"})
    unread = (entry.change.before, entry.column_mask, entry.change.source_position, entry.source)
    assert unread == (None,) * 4


def test_metadata_is_read_in_its_usual_form_whatever_the_layout() -> None:
    described = metadata("t", {"ID": "INT8"}, keys=("ID",))
    request = decoded(OPERATIONS, described, described["message"], {"row": ROW, "op": "I"})
    assert (len(request.metadata), len(request.changes)) == (2, 1)


@pytest.mark.parametrize(
    ("message", "code", "pointer"),
    [
        ({"row": ROW}, Code.MALFORMED_MESSAGE, "/op"),
        ({"row": ROW, "op": "X"}, Code.BAD_OP, "/op"),
        ({"row": ROW, "op": {}}, Code.MALFORMED_MESSAGE, "/op"),
        ({"row": 5, "op": "I"}, Code.MALFORMED_MESSAGE, "/row"),
        ({"row": [1], "op": "I"}, Code.LEGACY_FORMAT, "/row"),
        ({"op": "I"}, Code.MALFORMED_MESSAGE, "/row"),
        ({}, Code.MALFORMED_MESSAGE, "/op"),
    ],
)
def test_what_is_wrong_is_named_where_the_layout_has_it(message: Any, code: Code, pointer: str) -> None:
    with rejected(places=[(code, 0, pointer, None)]):
        decoded(OPERATIONS, message)


@pytest.mark.parametrize("message", [{"a": 5}, {"a": "x"}, {"a": [1]}])
def test_a_step_that_is_no_object_is_named(message: Any) -> None:
    with rejected(places=[(Code.MALFORMED_MESSAGE, 0, "/a", None)]):
        decoded({"data": "a.b.c", "operation": "op"}, message | {"op": "INSERT"})


@pytest.mark.parametrize(
    ("layout", "pointers"),
    [
        ([], [""]),
        ({}, ["", ""]),
        ({"data": "row"}, [""]),
        ({"headers": "h"}, [""]),
        ({"data": "row", "headers": "row"}, ["/headers"]),
        ({"data": "*", "before_data": "*", "headers": "h"}, ["/before_data"]),
        ({"data": 5, "operation": ["op"]}, ["/data", "/operation"]),
        ({"data": "a..b", "operation": ""}, ["/data", "/operation"]),
        ({"data": "a.b.c.d.e.f.g.h.i", "operation": "o\u0007"}, ["/data", "/operation"]),
        ({"data": "row", "operation": "op_*"}, ["/operation"]),
        ({"data": "row", "operation": "op", "rows": "x"}, ["/rows"]),
        ({"data": "row", "operation": "op", "operations": {"I": "merge"}}, ["/operations/I"]),
        ({"data": "row", "operation": "op", "operations": {"I": "insert", "i": "insert"}}, ["/operations/i"]),
        ({"data": "row", "operation": "op", "operations": {"": "insert", "x" * 65: "insert"}}, ["/operations/", None]),
        ({"data": "row", "operation": "op", "operations": ["I"]}, ["/operations"]),
    ],
)
def test_a_layout_that_is_not_valid_is_rejected_with_everything_that_is_wrong(
    layout: Any, pointers: list[str | None]
) -> None:
    with pytest.raises(WrongLayout) as raised:
        read_layout(layout)
    found = [problem.pointer for problem in raised.value.problems]
    assert [
        pointer if wanted is not None else None for pointer, wanted in zip(found, pointers, strict=True)
    ] == pointers


WRITTEN = st.sampled_from(
    ["data", "row", "old", "meta", "payload", "op", "operation", "changeMask", "key", "value", "a/b", "ID"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["INSERT", "delete", "U", "03", "", "t"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WRITTEN, inner, max_size=4),
    max_leaves=8,
)
PLACES = st.sampled_from(
    ["data", "row", "payload.row", "/payload/a~1b", "meta", "meta_*", "*", "row.*", "op", "meta.op", "value"]
)


@given(
    st.dictionaries(st.sampled_from([*PARTS, *LAYOUT_HEADERS, *LAYOUT_NAMES]), PLACES, min_size=2),
    st.lists(VALUES, max_size=3),
)
def test_any_layout_is_valid_or_not_and_reads_any_message_or_rejects_it(layout: dict[str, str], messages: Any) -> None:
    try:
        form = MessageForm(layout=read_layout(layout))
    except WrongLayout as wrong:
        assert wrong.problems
        return
    assert MessageForm.from_json(form.to_json()) == form
    try:
        request = decode_replicate(json.dumps(messages).encode(), form=form)
    except RejectedInput as rejection:
        assert str(rejection.code)
    else:
        assert len(request.changes) + len(request.metadata) + request.ignored == len(messages)
