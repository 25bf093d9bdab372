"""One file for each rule of the Replicate format: messages, and their rows or errors."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.formats.replicate.tables_in_memory import Tables
from tests.support.rejections import rejected
from tests.support.samples.schemas import schema_of

SAMPLES = sorted((Path(__file__).parents[2] / "samples" / "replicate").glob("*.json"))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_messages_give_these_rows_or_this_error(path: Path) -> None:
    """`declared` tables were registered by PUT; `earlier` are the messages of requests before, one each."""
    sample: dict[str, Any] = json.loads(path.read_bytes())
    tables = Tables()
    for name, declared in sample.get("declared", {}).items():
        tables.schemas[name.casefold()] = schema_of(declared["columns"], declared.get("keys", []))
    for message in sample.get("earlier", []):
        tables.post(json.dumps(message).encode(), sample.get("table"))
    body = json.dumps(sample["messages"]).encode()
    if "error" not in sample:
        rows, ignored = tables.post(body, sample.get("table"))
        assert (rows, ignored) == (sample["rows"], sample.get("ignored", 0))
        return
    with rejected() as rejection:
        tables.post(body, sample.get("table"))
    expected = {"index": None, "pointer": None, "column": None} | sample["error"]
    places = rejection.places or [(rejection.code, None, None, None)]
    fields = ("code", "index", "pointer", "column")
    assert dict(zip(fields, places[0], strict=True)) == expected
    assert len(places) == sample.get("problems", 1)
