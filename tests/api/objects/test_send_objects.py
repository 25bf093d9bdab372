"""`mirrorgate send` with addresses of object storage: objects are listed, sent and continued as files are."""

import gzip
from io import BufferedRandom, BytesIO, FileIO

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from mirrorgate import arrow_rows
from tests.api.calls import Gateway
from tests.api.commands import Ended, Terminal
from tests.api.objects.bridging import bridge_of
from tests.api.objects.test_s3 import Bucket, bucket, keys, rows
from tests.support.http.stand_in import StandIn, serving
from tests.support.waiting import wait_until

__all__ = ["bucket"]

pytestmark = pytest.mark.usefixtures("gateway")


def parquet(first: int, count: int = 2) -> bytes:
    stream = BytesIO()
    pq.write_table(pa.table({"id": range(first, first + count)}), stream, row_group_size=1)
    return stream.getvalue()


def sending(bucket: Bucket, below: str, *arguments: object) -> tuple[object, ...]:
    """Return the command that sends what is below an address."""
    options = [part for name, value in bucket.options.items() for part in ("--option", f"{name}={value}")]
    return ("send", f"{bucket.url}/{below}", "--table", "t", "--key-columns", "id", *arguments, *options)


def send(terminal: Terminal, bucket: Bucket, below: str, *arguments: object) -> Ended:
    return terminal.run(*sending(bucket, below, *arguments))


def test_all_objects_below_an_address_are_sent_in_order_and_once(
    terminal: Terminal, api_engine: sa.Engine, bucket: Bucket
) -> None:
    bucket.put(**{"in__2.parquet": parquet(2), "in__1.parquet": parquet(0), "in__x__3.parquet": parquet(4),
                  "in___SUCCESS": b"", "other.parquet": parquet(9)})  # fmt: skip
    sent = send(terminal, bucket, "in/", "--producer", "p")
    assert sent.status == 0, sent.errors
    assert "3 files sent completely" in sent.output
    assert keys(api_engine) == [*range(6)]
    bucket.put(**{"in__y.parquet": parquet(6)})
    again = send(terminal, bucket, "in/", "--producer", "p", "--json")
    assert (again.report["changes"], again.report["files"]) == (2, 1)


@pytest.mark.parametrize("is_parquet", [True, False])
def test_an_object_that_was_sent_in_part_continues(
    terminal: Terminal, gateway: Gateway, bucket: Bucket, is_parquet: bool
) -> None:
    gateway.register("t", {"id": "int64"}, ["id"])
    name, content = ("1.parquet", parquet(0, 5)) if is_parquet else ("1.ndjson.gz", gzip.compress(rows(0, 5)))
    bucket.put(**{name: content})
    arguments = [] if is_parquet else ["--format", "rows", "--columns", "id:int64"]
    terminal.be_interrupted(2, *sending(bucket, name, *arguments, "--producer", "p", "--batch", 1))
    again = send(terminal, bucket, name, *arguments, "--producer", "p", "--json")
    assert again.report["changes"] == 3
    assert keys(gateway.engine) == [*range(5)]
    bucket.put(**{name: b"x"})
    changed = send(terminal, bucket, name, *arguments, "--producer", "p")
    assert f"{bucket.url}/{name} was sent completely and has changed since" in changed.errors


def test_a_part_of_an_object_that_is_gone_holds_up_nothing_in_its_folder(
    terminal: Terminal, gateway: Gateway, bucket: Bucket
) -> None:
    gateway.register("t", {"id": "int64"}, ["id"])
    bucket.put(**{"in__1.json": rows(0, 1) + b'{"id": "x"}\n', "in__2.json": rows(2)})
    arguments = ("--columns", "id:int64", "--producer", "p", "--batch", 1)
    assert send(terminal, bucket, "in/", *arguments).status == 1
    obstore.delete(bucket.store, "in/1.json")
    again = send(terminal, bucket, "in/", *arguments, "--json")
    assert again.report["changes"] == 2


def test_an_object_or_bucket_that_is_not_there_is_named(terminal: Terminal, bucket: Bucket) -> None:
    missing = send(terminal, bucket, "none.json")
    assert f"{bucket.url}/none.json does not exist" in missing.errors
    assert "end it with a slash" in " ".join(missing.errors.split())
    empty = send(terminal, bucket, "none/")
    assert "there is no file" in empty.errors


def test_a_full_temporary_folder_is_waited_for_as_the_store_is(
    terminal: Terminal, gateway: Gateway, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.register("t", {"id": "int64"}, ["id"])
    bucket.put(**{"1.parquet": parquet(0)})
    bridge = bridge_of(gateway.address, bucket.url, "rows", table="t", options=bucket.options)
    with monkeypatch.context() as full:
        full.setattr(arrow_rows, "TemporaryFile", lambda **_: BufferedRandom(FileIO("/dev/full", "r+")))
        sent = send(terminal, bucket, "1.parquet")
        with bridge.running():
            wait_until(lambda: bridge.status.reasons(), within=30, what="the table waits")
            (reason,) = bridge.status.reasons()
    assert (sent.status, "No space left on device" in sent.errors) == (3, True)
    assert "No space left on device" in reason
    assert bridge.run()["t"].messages == 2


def test_a_file_of_a_web_server_is_sent(terminal: Terminal, api_engine: sa.Engine) -> None:
    content = parquet(0, 3)

    class Files(StandIn):
        def respond(self) -> None:
            found = content if self.path == "/data/o.parquet" else b""
            dated = {"ETag": '"1"', "Last_Modified": "Sun, 01 Nov 2026 10:00:00 GMT"}
            self.answer(200 if found else 404, found, **dated)

        do_HEAD = respond  # noqa: N815  # the name of http.server

    with serving(Files) as url:
        sent = terminal.run("send", f"{url}/data/o.parquet", "--table", "t", "--key-columns", "id")
    assert sent.status == 0, sent.errors
    assert keys(api_engine) == [0, 1, 2]
