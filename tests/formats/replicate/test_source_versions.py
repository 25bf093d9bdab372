"""Metadata that is remembered between requests."""

import json
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from app.formats.replicate.history import MAX_EARLIER_VERSIONS, SourceHistory, extend, with_external_ids
from app.formats.replicate.messages import decode_replicate
from app.formats.replicate.metadata import TableMetadata


def metadata(*versions: tuple[str, int]) -> Sequence[TableMetadata]:
    """MD messages of one table with these schema ids and table versions."""
    columns = {"a": {"ordinal": 1, "type": "INT4", "primaryKeyPosition": 1}}
    messages = [
        {
            "schemaId": schema_id,
            "lineage": {"table": "t", "tableVersion": number},
            "tableStructure": {"tableColumns": columns},
        }
        for schema_id, number in versions
    ]
    return decode_replicate(json.dumps(messages).encode()).metadata


def ids(history: SourceHistory) -> list[str | None]:
    return [version.schema_id for version in history.versions]


def test_the_same_message_again_changes_nothing() -> None:
    history = extend(None, metadata(("one", 1)))
    assert extend(history, metadata(("one", 1), ("one", 1))) == history


def test_a_few_earlier_versions_are_kept() -> None:
    newest = MAX_EARLIER_VERSIONS + 5
    history = extend(None, metadata(*((str(number), number) for number in range(newest + 1))))
    assert ids(history) == [str(number) for number in range(newest - MAX_EARLIER_VERSIONS, newest + 1)]


def test_a_repeated_request_changes_nothing() -> None:
    history = extend(extend(None, metadata(("one", 1))), metadata(("two", 2), ("three", 3)))
    assert extend(history, metadata(("one", 1), ("two", 2), ("three", 3))) == history
    assert extend(history, metadata(("two", 2), ("three", 3))) == history


def test_another_schema_id_of_the_same_table_version_is_a_new_version() -> None:
    history = extend(extend(None, metadata(("one", 1))), metadata(("other", 1)))
    assert ids(history) == ["one", "other"]


def test_a_version_that_comes_back_keeps_its_external_schema_id() -> None:
    history = extend(None, metadata(("one", 1), ("other", 1)))
    history = with_external_ids(history, {("one", 1, None): "77"})
    again = extend(history, metadata(("one", 1)))
    assert ids(again) == ["other", "one"]
    assert again.current.external_schema_id == "77"


def test_an_external_schema_id_is_adopted_once() -> None:
    history = with_external_ids(extend(None, metadata(("one", 1))), {("one", 1, None): "77", ("two", 2, None): "79"})
    assert with_external_ids(history, {("one", 1, None): "78"}) == history
    assert history.current == replace(history.current, external_schema_id="77")


def test_what_is_stored_is_read_back() -> None:
    history = with_external_ids(extend(None, metadata(("one", 1), ("two", 2))), {("two", 2, None): "77"})
    text = msgspec.json.encode(history.to_json())
    assert SourceHistory.from_json(msgspec.json.decode(text)) == history
