"""The bridge and `mirrorgate send` on S3, with moto as the service: listings, faults of the store, and the example."""

import gzip
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedRandom, BytesIO, FileIO
from pathlib import Path
from uuid import uuid4

import httpx
import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from obstore.store import S3Store, from_url

from mirrorgate import arrow_rows
from mirrorgate.errors import Misconfigured
from mirrorgate_bridge.objects.settings import BatchSettings
from tests.api.calls import ADMIN_KEY, Gateway
from tests.api.commands import Ended, Terminal, keys, staged
from tests.api.objects.bridging import bridge_of
from tests.support.documents import follow_page
from tests.support.http.stand_in import StandIn, serving
from tests.support.processes import REPOSITORY
from tests.support.waiting import wait_until

COLUMNS = {"id": "int64"}


@dataclass(frozen=True)
class Bucket:
    """A prefix of the bucket `lake` that no other test uses."""

    url: str
    options: dict[str, str]
    store: S3Store

    def put(self, **objects: bytes) -> None:
        for key, content in objects.items():
            obstore.put(self.store, key.replace("__", "/"), content)


@pytest.fixture
def bucket(s3_service: tuple[int, str]) -> Bucket:
    _, endpoint = s3_service
    url = f"s3://lake/{uuid4().hex}"
    options = {
        "endpoint": endpoint, "region": "us-east-1", "access_key_id": "AKIDTEST", "secret_access_key": "any",
    }  # fmt: skip
    store = from_url(url, config=options, client_options={"allow_http": True})
    assert isinstance(store, S3Store)
    return Bucket(url, options, store)


def rows(first: int, count: int = 2) -> bytes:
    return b"".join(b'{"id": %d}\n' % number for number in range(first, first + count))


def test_a_bucket_is_read_by_table_and_continued(gateway: Gateway, bucket: Bucket) -> None:
    for name in ("sales.a", "sales.b"):
        gateway.register(name, COLUMNS, ["id"])
    bucket.put(sales__a__1=rows(0), sales__b__x__1=rows(0), sales__b__2=rows(9, 1), sales__a__3=b"")
    bridge = bridge_of(gateway.address, bucket.url, "rows", "{schema}/{table}/…", options=bucket.options)
    with bridge.running():
        wait_until(lambda: bridge.done("sales.a") == 2 and bridge.done("sales.b") == 2, within=30, what="all is read")
        bucket.put(sales__a__4=rows(2), sales__a__5=rows(4))
        wait_until(lambda: bridge.done("sales.a") == 4, within=30, what="new objects are read")
    bucket.put(sales__a__6=rows(6))
    assert bridge.run()["sales.a"].objects == 1
    assert keys(gateway.engine, "sales.a") == list(range(8))
    assert keys(gateway.engine, "sales.b") == [9, 0, 1]


def test_all_folders_of_a_table_are_read_in_order_with_the_address_from_the_environment(
    gateway: Gateway, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.register("t", COLUMNS, ["id"])
    bucket.put(**{f"{day:02}__t__1": rows(2 * day) for day in range(50)})
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.options["endpoint"])
    options = {name: value for name, value in bucket.options.items() if name != "endpoint"}
    bridge_of(gateway.address, bucket.url, "rows", "{day}/{table}/…", options=options).run()
    assert keys(gateway.engine) == list(range(100))


@contextmanager
def failing_store(endpoint: str) -> Iterator[tuple[str, threading.Event]]:
    """Yield the address of a proxy in front of S3, and an event: while it is set, S3 fails."""
    fails = threading.Event()

    class Handler(StandIn):
        def respond(self) -> None:
            if fails.is_set():
                self.answer(500, b"<Error><Code>InternalError</Code></Error>")
                return
            given = {name: value for name, value in self.headers.items() if name.lower().startswith(("auth", "x-amz"))}
            answer = httpx.get(endpoint + self.path, headers=given, trust_env=False)
            kept = {
                name.replace("-", "_"): answer.headers[name]
                for name in ("ETag", "Last-Modified")
                if name in answer.headers
            }
            self.answer(answer.status_code, answer.content, **kept)

    with serving(Handler) as address:
        yield address, fails


def test_a_store_that_fails_is_waited_for_and_told(gateway: Gateway, bucket: Bucket) -> None:
    gateway.register("t", COLUMNS, ["id"])
    bucket.put(a=rows(0))
    with failing_store(bucket.options["endpoint"]) as (address, fails):
        bridge = bridge_of(
            gateway.address, bucket.url, "rows", table="t", options={**bucket.options, "endpoint": address}
        )
        with bridge.running():
            wait_until(lambda: bridge.done("t") == 1, within=30, what="the first object is read")
            fails.set()
            wait_until(lambda: bool(bridge.status.sources), within=30, what="the store is told to fail")
            (reason,) = bridge.status.reasons()
            assert reason.startswith(f"in: {bucket.url}: ")
            bucket.put(b=rows(2))
            fails.clear()
            wait_until(lambda: bridge.done("t") == 2, within=30, what="the next object is read")
            assert bridge.status.reasons() == []
    assert bridge.events("source_waits")[0]["code"] == "source_unavailable"
    assert keys(gateway.engine) == list(range(4))


def test_an_object_whose_name_cannot_be_listed_is_told(api_address: str, bucket: Bucket) -> None:
    httpx.put(f"{bucket.options['endpoint']}/{bucket.url.removeprefix('s3://')}/a//b", content=rows(0))
    with pytest.raises(Misconfigured, match="a//b") as raised:
        bridge_of(api_address, bucket.url, "rows", table="t", options=bucket.options).run()

    assert raised.value.remedy.startswith("Rename or delete the object")


@pytest.mark.parametrize(
    ("url", "options", "said"),
    [
        ("s3://guarded/x", {}, "rejects the credentials"),
        ("s3://no-such-bucket/x", {}, "it does not exist"),
        ("s3://lake/x", {"regoin": "x"}, "'regoin' is not valid"),
        ("ftp://lake/x", {}, "has an unknown scheme"),
    ],
)
def test_wrong_settings_of_a_store_end_the_bridge_with_their_remedy(
    api_address: str, bucket: Bucket, url: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(Misconfigured, match=said) as raised:
        bridge_of(api_address, url, "rows", table="t", options=bucket.options | options).run()

    assert raised.value.remedy


def test_two_bridges_with_one_name_send_each_message_once_and_one_of_them_says_so(
    gateway: Gateway, bucket: Bucket
) -> None:
    gateway.register("t", COLUMNS, ["id"])
    bucket.put(a=rows(0, 10), b=rows(10, 10))
    second = bridge_of(gateway.address, bucket.url, "rows", table="t", options=bucket.options)
    second.batch = BatchSettings(max_messages=4)
    first = second.changed(done_marker=".ok")
    first.batch = BatchSettings(max_messages=3)  # the same requests would be repetitions, which the gateway recognizes
    with first.running():
        wait_until(lambda: first.waiting("t") == 2, within=30, what="the first bridge has asked for the position")
        second.run()
        bucket.put(**{"a.ok": b"", "b.ok": b"", "c": rows(20, 10), "c.ok": b""})
        wait_until(lambda: len(keys(gateway.engine)) == 30, within=30, what="the first bridge sends what is left")
    assert keys(gateway.engine) == list(range(30))
    assert first.events("producer_conflict")


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


def test_files_of_arcion_on_s3_land_as_the_example_prints_it(
    gateway: Gateway, s3_service: tuple[int, str], tmp_path: Path
) -> None:
    page = (REPOSITORY / "examples/arcion-on-s3/README.md").read_text()
    page = page.replace("http://127.0.0.1:8480", gateway.address).replace("http://127.0.0.1:5000", s3_service[1])
    page = page.replace("/lake", "/tutorial")
    files = tmp_path / "examples/arcion-on-s3"
    shutil.copytree(REPOSITORY / "examples/arcion-on-s3", files)
    settings = (files / "objects.yaml").read_text().replace("http://127.0.0.1:5000", s3_service[1])
    (files / "objects.yaml").write_text(settings.replace("/lake/", "/tutorial/"))
    (tmp_path / ".mirrorgate").mkdir()
    (tmp_path / ".mirrorgate/admin.key").write_text(ADMIN_KEY)
    follow_page(page, tmp_path)
    assert [(row[0], row[1], str(row[2])) for row in staged(gateway.engine, "bakery.orders")] == [
        (1, "Ada", "12.50"), (1, "Ada", "14.00"), (2, "Grace", "3.00"), (3, "Edsger", "15.00"),
    ]  # fmt: skip
