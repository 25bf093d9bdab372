"""`mirrorgate send` with the real API: files larger than a request, rejections, and how to continue after them."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.api.calls import EMPLOYEES, MAX_BODY_BYTES, Gateway
from tests.api.commands import Ended, Terminal, keys, lines, staged
from tests.support.samples.replicate_avro import data_message, metadata_message

CSV = ("--format", "csv", "--table", "t", "--mode", "snapshot")


Send = Callable[..., Ended]


@pytest.fixture
def send(terminal: Terminal, gateway: Gateway, tmp_path: Path) -> Send:
    """Run the command on a file with this content; a table `t` is registered."""
    gateway.register("t", {"id": "int64", "note": "string"}, ["id"]).raise_for_status()

    def run(content: bytes, *options: object) -> Ended:
        file = tmp_path / "changes"
        file.write_bytes(content)
        return terminal.run("send", file, *options)

    return run


@pytest.mark.parametrize(
    "content",
    [b"\n".join(lines(1_000)), b"[" + b",\n".join(lines(1_000)) + b"]", b" ".join(lines(1_000))],
    ids=["lines", "array", "objects"],
)
def test_a_file_above_the_body_limit_is_sent_in_order(gateway: Gateway, send: Send, content: bytes) -> None:
    assert len(content) > MAX_BODY_BYTES
    ended = send(content, "--format", "arcion", "--max-bytes", 30_000, "--json")
    assert (ended.status, ended.errors) == (0, "")
    report = ended.report
    requests = report["requests"]
    assert requests >= len(content) // 30_000
    assert report["tables"] == {"t": {"generation": 1, "last_sequence": requests, "changes": 1_000, "rows": 1_000}}
    assert staged(gateway.engine, "t") == [(key, "x" * 50) for key in range(1_000)]


@pytest.mark.parametrize("declared", [("--header",), ("--columns", "id,note")])
def test_a_csv_file_above_the_body_limit_keeps_line_ends_within_quotes(
    gateway: Gateway, send: Send, declared: tuple[str, ...]
) -> None:
    rows = [(key, f'"{key}",\r\n\n' + "é" * 50) for key in range(1_000)]
    written = io.StringIO()
    csv.writer(written).writerows([*([("id", "note")] if declared == ("--header",) else []), *rows])
    content = written.getvalue().encode()
    assert len(content) > MAX_BODY_BYTES
    ended = send(content, *CSV, *declared, "--max-bytes", 2_000)
    assert (ended.status, ended.errors) == (0, "")
    assert ended.output.startswith("accepted: 1,000 changes in ")
    assert staged(gateway.engine, "t") == rows


@pytest.mark.parametrize("source_format", ["rows", "rows-csv"])
def test_a_file_of_plain_rows_is_sent_with_the_operation_of_its_rows(
    gateway: Gateway, send: Send, source_format: str
) -> None:
    declared = ("--columns", "id:int64,note:string", "--key-columns", "id")
    rows = [{"id": key, "note": "a;\n" if key else None} for key in range(20)]
    written = io.StringIO("id;note\n" + "".join(f'{row["id"]};"{row["note"]}"\n' for row in rows[1:]) + "\n0;\n")
    content = written.getvalue() if source_format == "rows-csv" else "\n".join(map(json.dumps, [*rows[1:], rows[0]]))
    signs = ("--delimiter", ";") if source_format == "rows-csv" else ()
    ended = send(
        content.encode(), "--format", source_format, "--table", "new", "--op", "insert", "--batch", 7, *signs, *declared
    )
    assert (ended.status, ended.errors) == (0, "")
    assert ended.output.startswith("accepted: 20 changes in 3 requests")
    assert staged(gateway.engine, "new") == [tuple(row.values()) for row in [*rows[1:], rows[0]]]


def test_messages_of_a_custom_format_are_sent_by_their_layout(gateway: Gateway, send: Send) -> None:
    gateway.register("offices", {"id": "int32", "title": "string"}, ["id"]).raise_for_status()
    layout = {"data": "row", "headers": "meta"}
    gateway.put("/v1/layouts/flat", json=layout).raise_for_status()
    messages = [
        {"row": {"id": key, "title": "Oslo"}, "meta": {"operation": "INSERT"}, "to": {"name": "offices"}}
        for key in range(3)
    ]
    content = "\n".join(map(json.dumps, messages)).encode()
    ended = send(content, "--format", "replicate", "--layout", "flat", "--table-from", "/to/name", "--batch", 2)
    assert (ended.status, ended.errors) == (0, "")
    assert staged(gateway.engine, "offices") == [(key, "Oslo") for key in range(3)]
    assert "--layout is for --format replicate" in " ".join(
        send(b"", "--format", "arcion", "--layout", "x").errors.split()
    )


def test_metadata_comes_before_the_data_that_needs_it(gateway: Gateway, send: Send, samples: Path) -> None:
    conversation = (samples / "replicate" / "conversation.ndjson").read_bytes()
    ended = send(conversation, "--format", "replicate", "--batch", 1, "--json")
    assert ended.status == 0
    assert ended.report["requests"] == len(conversation.splitlines())
    assert ended.report["tables"][EMPLOYEES]["last_sequence"] == gateway.status(EMPLOYEES)["last_sequence"]
    assert gateway.status(EMPLOYEES)["accepted"] == {"batches": 5, "changes": 5, "rows": 6}


def test_a_rejection_names_the_message_in_the_file_and_the_rest_can_be_sent_after_a_mend(
    gateway: Gateway, send: Send
) -> None:
    wrong, mended = (b"\n".join(lines(25, **changed)) for changed in ({"_17": "x", "_18": "y"}, {}))
    options = ("--format", "arcion", "--batch", 10)
    ended = send(wrong, *options)
    assert ended.status == 1
    assert ended.output.startswith("accepted: 10 changes in 1 request")
    byte = sum(len(line) + 1 for line in lines(17))
    place = f"byte {byte}, line 18"
    assert f"error bad_value: message 17 /after/id: {place}: " in ended.errors
    assert "bad_value: message 18 /after/id: " in ended.errors
    assert "Then send the rest with --from-message 10." in ended.errors
    assert len(staged(gateway.engine, "t")) == 10

    report = send(wrong, *options, "--from-message", 10, "--json").report
    assert (report["complete"], report["next_message"], report["requests"]) == (False, 10, 0)
    assert [error["index"] for error in report["error"]["errors"]] == [17, 18]

    assert send(mended, *options, "--from-message", 10).status == 0
    assert staged(gateway.engine, "t") == [(key, "x" * 50) for key in range(25)]
    for beyond in (25, 99):
        ended = send(mended, *options, "--from-message", beyond)
        assert (ended.status, f"the file holds no message after the first {beyond}" in ended.errors) == (1, True)


def test_a_rejected_csv_record_is_named_by_its_line_in_the_file(gateway: Gateway, send: Send) -> None:
    records = [b'%d,"a\nb"\n' % key for key in range(20)]
    records[15] = b'x,"a\nb"\n'
    ended = send(b"id,note\n" + b"\n" + b"".join(records), *CSV, "--header", "--batch", 6)
    assert ended.status == 1
    byte = len(b"id,note\n\n" + b"".join(records[:15]))
    assert f"bad_value: message 15 /after/id: byte {byte}, line 33: " in ended.errors
    assert "line 33: line" not in ended.errors
    assert "--from-message 12" in ended.errors


def test_a_text_that_is_no_json_is_named_by_its_byte_in_the_file(gateway: Gateway, send: Send) -> None:
    before = b"\n".join(lines(20)) + b"\n"
    ended = send(before + b'{"tableName": }\n', "--format", "arcion", "--batch", 3)
    assert ended.status == 1
    assert f"malformed_json: message 20: byte {len(before)}, line 21: " in ended.errors
    assert f"(byte {len(before) + 14})" in ended.errors


def test_a_file_of_replicates_avro_envelopes_is_sent_like_json(gateway: Gateway, send: Send) -> None:
    messages = [data_message("hr.jobs", "7b1c", "INSERT", {"ID": number, "TITLE": "x" * 50}) for number in range(500)]
    content = metadata_message("hr.jobs", "7b1c") + b"".join(messages)
    ended = send(content, "--format", "replicate", "--max-bytes", 20_000, "--json")
    assert (ended.status, ended.errors) == (0, "")
    assert ended.report["requests"] > 1
    assert keys(gateway.engine, "hr.jobs") == [*range(500)]
    broken = send(messages[0] + messages[1][:-1], "--format", "replicate", "--json")
    assert (broken.status, broken.report["error"]["code"]) == (1, "malformed_avro")
