"""`mirrorgate send` with the real API: files of messages and of rows, rejections, and how to continue after them."""

import csv
import datetime as dt
import gzip
import io
import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from tests.api.calls import EMPLOYEES, MAX_BODY_BYTES, Gateway
from tests.api.commands import Ended, Terminal, keys, lines, staged
from tests.api.objects.bridging import bridge_of
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


pytestmark = pytest.mark.usefixtures("gateway")
ROWS = [{"id": number, "name": f"n{number}", "total": Decimal("1.25")} for number in range(5)]
PARQUET = ("--table", "t", "--key-columns", "id")


def write_parquet(path: Path, rows: list[dict[str, Any]], **options: Any) -> None:
    pq.write_table(pa.Table.from_pylist(rows, pa.Table.from_pylist(ROWS).schema), path, **options)


def test_a_folder_of_parquet_files_is_sent_in_order_and_registers_its_table(
    terminal: Terminal, gateway: Gateway, tmp_path: Path
) -> None:
    for number, rows in enumerate((ROWS[:2], ROWS[2:])):
        write_parquet(tmp_path / f"{number}.parquet", rows)
    sent = terminal.succeed("send", tmp_path, *PARQUET, "--producer", "files")
    assert "accepted: 5 changes in 2 requests, 2 files sent completely" in sent.output
    assert keys(gateway.engine) == [0, 1, 2, 3, 4]
    types = gateway.types("t")
    assert (types["id"], types["name"]) == ("int64", "string")
    again = terminal.run("send", tmp_path, *PARQUET, "--producer", "files", "--json")
    assert (again.report["requests"], again.report["files"]) == (0, 0)


def test_files_with_more_columns_add_them_to_the_table(terminal: Terminal, gateway: Gateway, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "note": ["a"]}), tmp_path / "1.parquet")
    more = {"id": [2], "note": pa.nulls(1), "city": ["Oslo"], "empty": pa.nulls(1)}
    pq.write_table(pa.table(more), tmp_path / "2.parquet")
    terminal.succeed("send", tmp_path, *PARQUET)
    assert [*gateway.types("t")] == ["id", "note", "city"], "a column without a value has no type"


@pytest.mark.parametrize("batch", [1, 3])
def test_an_interrupted_parquet_file_continues_with_its_next_row(
    terminal: Terminal, gateway: Gateway, tmp_path: Path, batch: int
) -> None:
    gateway.register("t", {"id": "int64", "name": "string", "total": "decimal(3,2)"}, ["id"])
    write_parquet(tmp_path / "a.parquet", ROWS, row_group_size=2)
    terminal.be_interrupted(2, "send", tmp_path / "a.parquet", *PARQUET, "--producer", "p", "--batch", 1)
    before = len(keys(gateway.engine))
    assert 0 < before < 5
    again = terminal.run("send", tmp_path / "a.parquet", *PARQUET, "--producer", "p", "--batch", batch, "--json")
    assert again.report["changes"] == 5 - before
    assert keys(gateway.engine) == [0, 1, 2, 3, 4]


def test_a_partly_sent_parquet_file_that_has_changed_is_rejected(
    terminal: Terminal, api_address: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.parquet"
    write_parquet(file, [*ROWS[:3], {**ROWS[0], "id": None}])
    ended = terminal.run("send", file, *PARQUET, "--producer", "p", "--batch", 1, "--json")
    assert ended.report["error"]["errors"][0]["index"] == 3
    assert ended.report["error"]["errors"][0]["pointer"] == "/id"
    write_parquet(file, ROWS)
    again = terminal.run("send", file, *PARQUET, "--producer", "p")
    assert "source_position_lost: it has changed since its first 3 rows were sent" in again.errors
    assert "give a file without its first 3 rows" in again.errors


def test_a_folder_of_parquet_files_replaces_the_rows_of_a_table(
    terminal: Terminal, gateway: Gateway, tmp_path: Path
) -> None:
    for number, rows in enumerate((ROWS[:2], ROWS[2:])):
        write_parquet(tmp_path / f"{number}.parquet", rows)
    terminal.succeed("send", tmp_path, *PARQUET, "--load", "full")
    (tmp_path / "0.parquet").unlink()
    again = terminal.run("send", tmp_path, *PARQUET, "--load", "full")
    assert "load completed: 3 rows, 2 rows deleted" in again.output
    write_parquet(tmp_path / "1.parquet", [])
    empty = terminal.run("send", tmp_path, *PARQUET, "--load", "full")
    assert (empty.status, "empty_request" in empty.errors) == (1, True)
    states = [load["state"] for load in gateway.get("/v1/tables/t/loads").json()["loads"]]
    assert states == ["aborted", "completed", "completed"]


def test_a_damaged_parquet_file_is_named(terminal: Terminal, tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", ROWS)
    (tmp_path / "b.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:20])
    pq.write_table(pa.Table.from_arrays([pa.array([1])] * 2, ["id", "id"]), tmp_path / "c.parquet")
    ended = terminal.run("send", tmp_path, *PARQUET)
    assert ended.status == 1
    assert "b.parquet: the file cannot be read as Parquet" in ended.errors
    ended = terminal.run("send", tmp_path / "c.parquet", *PARQUET)
    assert "several columns with the name id" in ended.errors


def of_lake(api_address: str, folder: Path) -> Any:
    parameters = {"register": "true", "key_columns": "id"}
    return bridge_of(api_address, folder, "rows", "{table}/…", parameters=parameters)


def test_the_bridge_sends_each_row_of_parquet_objects_once(
    api_address: str, api_engine: sa.Engine, tmp_path: Path
) -> None:
    (tmp_path / "t").mkdir()
    write_parquet(tmp_path / "t/1.parquet", ROWS[:3], row_group_size=1)
    bridge = of_lake(api_address, tmp_path)
    bridge.batch = bridge.batch.model_copy(update={"max_messages": 2})
    assert bridge.run()["t"].requests == 2
    write_parquet(tmp_path / "t/2.parquet", ROWS[3:])
    tables = bridge.run()
    assert (tables["t"].objects, tables["t"].changes) == (1, 2)
    assert keys(api_engine) == [0, 1, 2, 3, 4]


def test_a_rejected_row_of_parquet_stops_its_table_and_names_object_row_and_column(
    api_address: str, api_engine: sa.Engine, tmp_path: Path
) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "u").mkdir()
    write_parquet(tmp_path / "t/1.parquet", [*ROWS[:3], {**ROWS[0], "id": None}, ROWS[4]])
    (tmp_path / "u/1.parquet").write_bytes(b"PAR1 and no more")
    bridge = of_lake(api_address, tmp_path)
    bridge.run()
    stops = {line["table"]: line for line in bridge.events("table_stopped")}
    assert stops["t"]["object"].endswith("/t/1.parquet")
    assert (stops["t"]["message"], stops["t"]["errors"][0]["pointer"]) == (3, "/id")
    assert stops["u"]["object"].endswith("/u/1.parquet")
    assert stops["u"]["detail"] == "the file cannot be read as Parquet"
    assert keys(api_engine) == [0, 1, 2]
    write_parquet(tmp_path / "t/1.parquet", ROWS)
    bridge.run()
    stopped = bridge.events("table_stopped")[-2:]
    assert "source_position_lost" in {line["code"] for line in stopped}


@pytest.mark.parametrize("name", ["a.csv", "b.CSV.gz", "c.ndjson", "d.jsonl.gz", "e.json", "f.parquet"])
def test_the_ending_of_a_file_says_its_format(terminal: Terminal, gateway: Gateway, tmp_path: Path, name: str) -> None:
    gateway.register("t", {"id": "int64", "name": "string"}, ["id"])
    contents = {"csv": b"id,name\n1,a\n", "json": b'[{"id": 1, "name": "a"}]', "jso": b'{"id": 1, "name": "a"}\n'}
    content = next((text for part, text in contents.items() if part in name.lower()), contents["jso"])
    file = tmp_path / name
    if name.endswith(".parquet"):
        pq.write_table(pa.table({"id": [1], "name": ["a"]}), file)
    else:
        file.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    terminal.succeed("send", tmp_path, "--table", "t")
    assert staged(gateway.engine, "t") == [(1, "a")]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["a.csv", "b.csv", "c.txt"], ".csv (2), .txt (1)"),
        (["a.csv", "b.parquet"], ".csv (1), .parquet (1)"),
        (["a"], "no ending (1)"),
        ([], "there is no file"),
    ],
)
def test_files_whose_endings_say_no_format_are_rejected_with_the_endings(
    terminal: Terminal, tmp_path: Path, names: list[str], said: str
) -> None:
    for name in names:
        (tmp_path / name).write_bytes(b"id\n1\n")
    ended = terminal.run("send", tmp_path, "--table", "t")
    assert ended.status != 0
    assert said in ended.errors


def write_sheet(path: Path, *rows: Sequence[Any]) -> None:
    book = openpyxl.Workbook()
    for row in rows:
        book.worksheets[0].append(row)
    book.save(path)


def test_a_sheet_registers_its_table_and_later_ones_add_columns(
    terminal: Terminal, gateway: Gateway, tmp_path: Path
) -> None:
    day = dt.datetime(2026, 11, 1, 10)
    write_sheet(tmp_path / "1.xlsx", ["id", "na,me", "none"], [1, "a", None])
    write_sheet(tmp_path / "2.xlsx", ["id", "na,me", 'to"tal', "at"], [2, "b", 2.5, day], [], [3, None, 1, None])
    sent = terminal.succeed("send", tmp_path, "--table", "t", "--key-columns", "id", "--producer", "p")
    assert gateway.types("t") == {"id": "int64", "na,me": "string", 'to"tal': "float64", "at": "timestamp"}
    assert "accepted: 3 changes in 2 requests, 2 files sent completely" in sent.output


def test_numbers_and_days_of_a_sheet_fit_the_columns_of_a_table_and_a_wrong_one_names_its_cell(
    terminal: Terminal, gateway: Gateway, tmp_path: Path
) -> None:
    gateway.register("t", {"id": "int64", "total": "decimal(12,2)", "day": "date", "code": "string"}, ["id"])
    rows = [[1, 10.1, dt.datetime(2026, 11, 1), 12], [2, 3, None, "A7"]]
    write_sheet(tmp_path / "a.xlsx", ["id", "total", "day", "code"], *rows)
    terminal.succeed("send", tmp_path / "a.xlsx", "--table", "t")
    assert staged(gateway.engine, "t") == [
        (1, Decimal("10.10"), dt.date(2026, 11, 1), "12"),
        (2, Decimal("3.00"), None, "A7"),
    ]
    write_sheet(tmp_path / "a.xlsx", ["id", "total", "day", "code"], *rows, [], [3, "much", None, ""])
    wrong = terminal.run("send", tmp_path / "a.xlsx", "--table", "t")
    assert "Sheet!B5" in wrong.errors
    assert "much" not in wrong.errors


def test_columns_declare_the_types_of_a_sheet(terminal: Terminal, gateway: Gateway, tmp_path: Path) -> None:
    write_sheet(tmp_path / "a.xlsx", ["id", "total"], [1, 2])
    declared = ("--columns", "id:int32,total:decimal(9,2)", "--key-columns", "id", "--sheet", "Sheet")
    terminal.succeed("send", tmp_path / "a.xlsx", "--table", "t", *declared)
    assert gateway.types("t") == {"id": "int32", "total": "decimal(9,2)"}


@pytest.mark.parametrize("load", [(), ("--load", "full")])
def test_rows_without_key_columns_register_no_table_that_would_reject_them(
    terminal: Terminal, gateway: Gateway, tmp_path: Path, load: tuple[str, ...]
) -> None:
    write_parquet(tmp_path / "a.parquet", ROWS)
    ended = terminal.run("send", tmp_path / "a.parquet", "--table", "t", *load)
    assert (ended.status, "error no_key: " in ended.errors, "--key-columns" in ended.errors) == (1, True, True)
    terminal.succeed("send", tmp_path / "a.parquet", *PARQUET, *load)
    assert keys(gateway.engine) == [0, 1, 2, 3, 4]


def test_rows_that_are_only_inserts_register_a_table_without_key_columns(
    terminal: Terminal, gateway: Gateway, tmp_path: Path
) -> None:
    write_parquet(tmp_path / "a.parquet", ROWS)
    terminal.succeed("send", tmp_path / "a.parquet", "--table", "t", "--op", "insert")
    assert keys(gateway.engine) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("ending", ["parquet", "xlsx"])
def test_the_column_of_operations_is_not_registered_as_one_of_the_table(
    terminal: Terminal, gateway: Gateway, tmp_path: Path, ending: str
) -> None:
    for number, operations in enumerate((["upsert", "upsert"], ["delete", "upsert"])):
        file = tmp_path / f"{number}.{ending}"
        columns = {"id": [1, 2], "__op__": operations, "note": ["a", "b"], **({"more": ["c", "d"]} if number else {})}
        if ending == "parquet":
            pq.write_table(pa.table(columns), file)
        else:
            book = openpyxl.Workbook()
            for row in (columns, *zip(*columns.values(), strict=True)):
                book.worksheets[0].append([*row])
            book.save(file)
    terminal.succeed("send", *sorted(tmp_path.iterdir()), *PARQUET)
    assert [*gateway.types("t")] == ["id", "note", "more"]
    assert len(keys(gateway.engine)) == 4
