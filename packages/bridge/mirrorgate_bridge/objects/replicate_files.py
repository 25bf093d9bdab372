"""Data files of Qlik's file targets, turned into Replicate messages with the help of their metadata files.

Replicate and Qlik Cloud write CSV or JSON files to S3, ADLS, GCS and folders. With *Create metadata files in the target
folder*, each has a file `.dfm` beside it: JSON with the columns and types of the data file. The reader turns
the `.dfm` into the metadata message that registers the table or adds columns, and each record into a data message. So
types, keys and schema changes follow the rules of `POST /v1/changes/replicate`. Sources: Qlik's help on metadata files
and on change tables.

Invariant: the messages of a file depend on the two files alone, so that a position counts the same messages again.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any, Final, Self

import msgspec

from app.formats.csv import read_records
from mirrorgate.chunking.chunks import Limits
from mirrorgate.chunking.csv_records import split_csv
from mirrorgate.chunking.json_messages import split_json
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.file_content import Mark, check_unchanged, decompress, digest_of
from mirrorgate.file_paths import plain_name
from mirrorgate.parameters import CsvLayout, CsvMode
from mirrorgate_bridge.objects.settings import Piece

_HEADER: Final = "header__"
_OPERATION_COLUMNS: Final = ("header__change_oper", "header__operation")
_OPERATIONS: Final = {
    **{"I": "INSERT", "INSERT": "INSERT", "U": "UPDATE", "UPDATE": "UPDATE", "D": "DELETE", "DELETE": "DELETE"},
    **{"B": "BEFORE", "BEFOREIMAGE": "BEFORE", "R": "REFRESH", "REFRESH": "REFRESH"},
}
_HEADERS: Final = {
    "header__change_seq": "changeSequence",
    "header__timestamp": "timestamp",
    "header__stream_position": "streamPosition",
    "header__transaction_id": "transactionId",
}
_CHANGE_TABLE: Final = re.compile(r"__ct$", re.IGNORECASE)
_BLOCK: Final = Limits(2**20)
_SETTINGS_REMEDY: Final = "Check the metadata file, and the settings of the endpoint that wrote it."


class _Column(msgspec.Struct, rename="camel"):
    name: str
    type: str
    ordinal: int = 0
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    primary_key_pos: int = 0


class _Options(msgspec.Struct, rename="camel"):
    field_delimiter: str = ","
    record_delimiter: str = "\n"
    null_value: str = ""
    quote_char: str = '"'
    escape_char: str = ""


class _FormatInfo(msgspec.Struct, rename="camel"):
    format: str
    options: _Options = msgspec.field(default_factory=_Options)


class _DataInfo(msgspec.Struct, rename="camel"):
    columns: list[_Column]
    source_schema: str | None = None
    source_table: str = ""
    table_version: int | None = None


class _FileInfo(msgspec.Struct, rename="camel"):
    content: str = "data"


class _TaskInfo(msgspec.Struct, rename="camel"):
    name: str | None = None
    replication_server: str | None = None


class _Description(msgspec.Struct, rename="camel"):
    data_info: _DataInfo
    format_info: _FormatInfo
    file_info: _FileInfo = msgspec.field(default_factory=_FileInfo)
    task_info: _TaskInfo = msgspec.field(default_factory=_TaskInfo)


def metadata_key(key: str) -> str:
    """Return the key of the metadata file of a data file: `LOAD00000001.csv.gz` has `LOAD00000001.dfm`."""
    folder, slash, _ = key.rpartition("/")
    name = key[len(folder) + len(slash) :]
    suffix = plain_name(key).rpartition(".")[2]
    return f"{folder}{slash}{re.split(rf'[.]{re.escape(suffix)}([.]|$)', name, flags=re.IGNORECASE)[0]}.dfm"


@dataclass(frozen=True)
class ReplicateFilesReader:
    """Reader of one data file as its metadata file describes it."""

    description: _Description
    key_columns: tuple[str, ...]
    content_type: str = "application/x-ndjson"

    @classmethod
    def of(cls, metadata: bytes, key: str, key_columns: tuple[str, ...]) -> Self:
        """Read a metadata file. Raises RejectedInput `unreadable_record`."""
        try:
            description = msgspec.json.decode(metadata, type=_Description)
        except msgspec.DecodeError as error:
            raise _unreadable(f"{metadata_key(key)} is not a metadata file of Replicate: {error}") from None
        if description.format_info.format not in ("delimited", "json"):
            detail = f"{metadata_key(key)}: the format {description.format_info.format!r} is not read"
            raise _unreadable(detail, "Write the files as CSV or JSON.")
        unknown = [name for name in key_columns if name not in {one.name for one in description.data_info.columns}]
        if unknown:
            raise _unreadable(f"{metadata_key(key)} has no column {unknown[0]!r}", "Correct `key_columns`.")
        return cls(description, key_columns)

    def pieces(self, blocks: Iterable[bytes], limits: Limits, mark: Mark | None) -> Iterator[Piece]:
        """Yield the pieces after `mark`, which is in this object, or all. Raises RejectedInput."""
        skip = 0 if mark is None else mark.next_message or 0
        content, lines, size = sha256(), list[bytes](), 0
        opening = [self.metadata_message()] if skip == 0 else []
        count = 0

        def piece() -> Piece:
            body = b"\n".join([*opening, *lines])
            return Piece(body, count - len(lines), count, 0, content.hexdigest()[:16], len(opening))

        for message in self._messages(decompress(blocks)):
            line = msgspec.json.encode(message)
            if lines and (size + len(line) > limits.max_bytes or len(lines) == limits.max_messages):
                yield piece()
                opening, lines, size = [], [], 0
            if count == skip and mark is not None:
                check_unchanged(content.hexdigest()[:16], mark)
            content.update(line)
            count += 1
            if count > skip:
                lines.append(line)
                size += len(line) + 1
        if lines:
            yield piece()
        elif mark is not None and count <= skip:
            check_unchanged(content.hexdigest()[:16] if count == skip else "too short", mark)

    def metadata_message(self) -> bytes:
        """Return the message that registers the table, or adds its new columns."""
        info, columns = self.description.data_info, self._data_columns()
        keys = {name: place for place, name in enumerate(self.key_columns, 1)} or {
            column.name: column.primary_key_pos for column in columns if column.primary_key_pos
        }
        described = {
            column.name: {
                "ordinal": ordinal,
                "type": column.type,
                "length": column.length or 0,
                "precision": column.precision or 0,
                "scale": column.scale or 0,
                "primaryKeyPosition": keys.get(column.name, 0),
                **({"nullable": False} if column.name in keys else {}),
            }
            for ordinal, column in enumerate(columns, 1)
        }
        lineage = {
            "server": self.description.task_info.replication_server,
            "task": self.description.task_info.name,
            "schema": info.source_schema,
            "table": _CHANGE_TABLE.sub("", info.source_table) or "table",
            **({} if info.table_version is None else {"tableVersion": info.table_version}),
        }
        message = {
            "schemaId": self._schema_id,
            "lineage": lineage,
            "tableStructure": {"tableColumns": described},
            "dataSchema": None,
        }
        return msgspec.json.encode({"magic": "atMSG", "type": "MD", "headers": None, "message": message})

    @property
    def _schema_id(self) -> str:
        return digest_of(msgspec.json.encode([self.description.data_info, self.key_columns]))

    def _data_columns(self) -> list[_Column]:
        return [column for column in self.description.data_info.columns if not column.name.startswith(_HEADER)]

    def _messages(self, blocks: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        """Yield a data message for each record; a before image joins the update that follows it."""
        before: Mapping[str, Any] | None = None
        for number, record in enumerate(self._records(blocks)):
            operation = self._operation(record, number)
            data = {name: value for name, value in record.items() if not name.startswith(_HEADER)}
            if operation == "BEFORE":
                before = data
                continue
            headers = {
                "operation": operation,
                **{to: _text(record[name]) for name, to in _HEADERS.items() if record.get(name) is not None},
            }
            image = before if operation == "UPDATE" else None
            body = {"data": data, "beforeData": image, "headers": headers}
            yield {"magic": "atMSG", "type": "DT", "headers": None, "message": body}
            before = None

    def _operation(self, record: Mapping[str, Any], number: int) -> str:
        name = next((name for name in _OPERATION_COLUMNS if name in record), None)
        if name is None:
            if self.description.file_info.content == "changes":
                remedy = "Turn on Store Changes in the task, so that its files have header__change_oper."
                raise _unreadable("the changes of the file have no column for their operation", remedy)
            return "REFRESH"
        written = _text(record[name])
        operation = _OPERATIONS.get(str(written).strip().upper())
        if operation is None:
            detail = f"record {number}: {name} is none of I, U, D, B"
            raise RejectedInput(Code.BAD_OP, detail, remedy=_SETTINGS_REMEDY)
        return operation

    def _records(self, blocks: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        if self.description.format_info.format == "json":
            return _json_records(blocks)
        return self._csv_records(blocks)

    def _csv_records(self, blocks: Iterable[bytes]) -> Iterator[dict[str, Any]]:
        options = self.description.format_info.options
        if _character(options.record_delimiter) not in ("\n", "\r\n"):
            raise _unreadable("its records do not end with a line end", "Set the record delimiter to \\n.")
        quote = _character(options.quote_char) or '"'
        layout = CsvLayout(
            CsvMode.SNAPSHOT,
            ("a", "b"),
            False,
            _character(options.field_delimiter),
            quote,
            _character(options.escape_char) or quote,
            options.null_value,
        )
        names = [column.name for column in self.description.data_info.columns]
        null = options.null_value
        at = 0
        for chunk in partial(split_csv, layout=layout)(blocks, _BLOCK, 0):
            for record in read_records(chunk.body, layout.dialect):
                values = record.values
                if not values or (at == 0 and values == names):
                    continue  # an empty line, or the names of the columns
                if len(values) != len(names):
                    detail = f"record {at} has {len(values)} fields, and its metadata {len(names)} columns"
                    raise RejectedInput(Code.CSV_FIELD_COUNT, detail, remedy=_SETTINGS_REMEDY)
                at += 1
                yield {
                    name: None if null and value == null else value for name, value in zip(names, values, strict=True)
                }


def _json_records(blocks: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    decoder, number = msgspec.json.Decoder(dict[str, msgspec.Raw]), 0
    for chunk in split_json(blocks, _BLOCK, 0):
        try:
            if chunk.body.lstrip().startswith(b"["):
                records = msgspec.json.decode(chunk.body, type=list[dict[str, msgspec.Raw]])
            else:
                records = decoder.decode_lines(chunk.body)
        except msgspec.DecodeError as error:
            remedy = "Check whether the file was cut off."
            detail = f"a record from record {number} on cannot be read: {error}"
            raise RejectedInput(Code.MALFORMED_JSON, detail, remedy=remedy) from None
        number += len(records)
        yield from records


def _text(value: Any) -> Any:
    """Return the value of a JSON record decoded; a CSV value is a string already."""
    return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value


def _character(written: str) -> str:
    """Return a delimiter, which the metadata may give in hexadecimal, as in `0x01`, or with a backslash."""
    if re.fullmatch(r"0[xX](?:[0-9a-fA-F]{2})+", written):
        return bytes.fromhex(written[2:]).decode("latin-1")
    return {"\\n": "\n", "\\r\\n": "\r\n", "\\t": "\t"}.get(written, written)


def _unreadable(detail: str, remedy: str = _SETTINGS_REMEDY) -> RejectedInput:
    return RejectedInput(Code.UNREADABLE_RECORD, detail, remedy=remedy)
