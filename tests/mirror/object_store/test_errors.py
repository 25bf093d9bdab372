"""Errors of an object store, and a target that is away or shared."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.mirror import target_lock
from app.mirror.target import MirrorTarget, shown, store_error
from app.mirror.target_lock import exclusive_target
from mirrorgate.cli.main import app
from mirrorgate.errors import Code, MirrorgateError, Misconfigured, TemporarilyUnavailable
from tests.mirror.faults.conftest import some_file
from tests.mirror.object_store.conftest import S3, Lake
from tests.spark.mirror.mirrors import Zone, mirror_environment
from tests.support.processes import REPOSITORY

SECRET = "secret-that-is-never-shown"


def failure(location: str, options: Mapping[str, str]) -> MirrorgateError:
    """Return how a mirror and the commands fail at a target: both in the same way."""
    with pytest.raises(MirrorgateError) as of_mirror, exclusive_target(location, options):
        pass
    given = [argument for pair in options.items() for argument in ("--storage-option", "=".join(pair))]
    answer = CliRunner().invoke(app, ["mirror", "query", "SELECT 1 FROM t", "--to", location, *given])
    error = of_mirror.value
    assert isinstance(answer.exception, type(error)), answer.output
    assert answer.exception.remedy == error.remedy
    for text in (error.detail, error.remedy, repr(error), answer.exception.detail, answer.output):
        assert SECRET not in text
        assert "\x1b" not in text
        assert "\n" not in text.strip()
    return error


def test_a_bucket_that_does_not_exist_is_named_with_the_remedy(s3: S3) -> None:
    error = failure("s3://nowhere/mirror", s3.options | {"aws_secret_access_key": SECRET})
    assert isinstance(error, Misconfigured)
    assert error.code is Code.BAD_SETTING
    assert "s3://nowhere/mirror: it does not exist: " in error.detail
    assert error.detail.endswith("NoSuchBucket: The specified bucket does not exist")
    assert error.remedy.startswith("Create the bucket")


def test_rejected_credentials_are_named_with_the_remedy(s3: S3) -> None:
    good = s3.options | s3.keys
    assert MirrorTarget("s3://guarded", good).tables() == []
    for wrong, code in (
        ("aws_access_key_id", "InvalidAccessKeyId"),
        ("aws_secret_access_key", "SignatureDoesNotMatch"),
    ):
        error = failure("s3://guarded/mirror", good | {wrong: SECRET})
        assert isinstance(error, Misconfigured)
        assert f"it rejects the credentials: GET {s3.options['aws_endpoint_url']}/guarded" in error.detail
        assert code in error.detail
        assert "AWS_SECRET_ACCESS_KEY" in error.remedy


def test_missing_credentials_are_named_with_the_remedy(s3: S3) -> None:
    keyless = {name: value for name, value in s3.options.items() if "key" not in name}
    error = failure("s3://lake/x", keyless | {"aws_metadata_endpoint": s3.options["aws_endpoint_url"]})
    assert isinstance(error, Misconfigured)
    assert "there are no credentials" in error.detail
    assert "AWS_ACCESS_KEY_ID" in error.remedy


def test_an_endpoint_without_tls_must_be_allowed(s3: S3) -> None:
    error = failure("s3://lake/x", s3.options | {"aws_allow_http": "false"})
    assert isinstance(error, Misconfigured)
    assert "aws_allow_http=true" in error.remedy


def test_an_unknown_scheme_is_a_setting_to_correct() -> None:
    error = failure("s4://lake/x", {})
    assert isinstance(error, Misconfigured)
    assert "s3://…" in error.remedy


def test_a_store_that_does_not_listen_is_away(s3: S3) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{free.getsockname()[1]}"
        error = failure("s3://lake/x", s3.options | {"aws_endpoint_url": endpoint, "max_retries": "1"})
    assert isinstance(error, TemporarilyUnavailable)
    assert error.code is Code.MIRROR_AWAY
    assert f"GET {endpoint}/lake" in error.detail
    assert "Connection refused" in error.detail


def test_a_table_of_a_bucket_that_is_away_is_tried_again(s3: S3, lake: Lake) -> None:
    table = lake.begin("orders", some_file(1))
    table.catch_up()
    table.land(some_file(2))
    usual = lake.target
    lake.store = MirrorTarget(usual.location, s3.options | {"timeout": "0.2s", "max_retries": "0"})
    with s3.away(), pytest.raises(TemporarilyUnavailable, match=Code.MIRROR_AWAY) as away:
        table.advance()
    assert "the Delta table orders: GET http" in away.value.detail
    lake.store = usual
    assert table.catch_up().file_number == 2
    assert table.check().last_file == 2


def test_a_rejected_signature_shows_no_session_token() -> None:
    answer = (
        "Generic S3 error\n  ↳ Error performing GET http://h/b?X-Amz-Security-Token=" + SECRET + " in 2ms - Server "
        'returned non-2xx status code\n   ↳ 403 Forbidden\n    ↳ <?xml version="1.0"?>\n<Error><Code>'
        "SignatureDoesNotMatch</Code><Message>It does not match.</Message><CanonicalRequest>GET\nx-amz-security-token:"
        + SECRET
        + "</CanonicalRequest></Error>"
    )
    error = store_error("s3://b/x", OSError(answer))
    assert (
        error.detail
        == "s3://b/x: it rejects the credentials: GET http://h/b: SignatureDoesNotMatch: It does not match."
    )


def test_other_errors_are_shown_by_their_first_line() -> None:
    assert shown(OSError("no space\nleft")) == "no space"


def test_a_target_shows_no_options() -> None:
    assert SECRET not in repr(MirrorTarget("s3://lake/x", {"aws_secret_access_key": SECRET}))


IMPATIENT = {"timeout": "3s", "max_retries": "0"}


@pytest.fixture
def always_checked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(target_lock, "_STORE_CHECK_SECONDS", 0.0)
    yield


@pytest.mark.usefixtures("always_checked")
def test_a_mirror_waits_while_its_bucket_is_away_and_continues(s3: S3) -> None:
    target = s3.target("/mirror of größe", **IMPATIENT)
    with exclusive_target(target.location, target.storage_options) as held:
        held.check()
        with s3.away(), pytest.raises(TemporarilyUnavailable, match=Code.MIRROR_AWAY):
            held.check()
        held.check()


def test_two_mirrors_may_open_one_bucket(s3: S3) -> None:
    target = s3.target()
    with (
        exclusive_target(target.location, target.storage_options) as one,
        exclusive_target(target.location, target.storage_options) as other,
    ):
        one.check()
        other.check()


PROCESS_SECRET = "secret-of-the-process-list"


def run_mirror(zone: Zone, location: str, options: Mapping[str, str]) -> tuple[int, str, set[str]]:
    """Run `mirror run --once`; return its status, its output, and each command line of it and its children."""
    command = [sys.executable, "-m", "mirrorgate.cli", "mirror", "run", "--once", str(zone.root), "--to", location]
    command += [part for pair in options.items() for part in ("--storage-option", "=".join(pair))]
    seen: set[str] = set()
    with subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env=mirror_environment(zone, LOG_LEVEL="debug"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        over = threading.Event()
        watching = threading.Thread(target=lambda: watch(process.pid, seen, over))
        watching.start()
        output, _ = process.communicate(timeout=150)
        over.set()
        watching.join()
    return process.returncode, output, seen


def watch(session: int, seen: set[str], over: threading.Event) -> None:
    """Collect the command lines of a session's processes until it is over."""
    while not over.wait(0.1):
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if os.getsid(int(folder.name)) == session:
                    seen.add((folder / "cmdline").read_text())
            except OSError:
                continue


@pytest.mark.spark
@pytest.mark.thorough
def test_a_process_mirrors_to_a_bucket_and_shows_no_secret(s3: S3, tmp_path: Path) -> None:
    zone, target = Zone(tmp_path), s3.target("/my mirror")
    zone.land("sales.orders", 1, [(1, "a", 0), (2, "b", 0)])
    zone.land("sales.orders", 2, [(1, "A", 1), (2, "", 2)])
    zone.land("größe", 1, [(7, "x", 4)])
    status, output, seen = run_mirror(zone, target.location, s3.options | {"aws_secret_access_key": PROCESS_SECRET})
    assert status == 0, output
    assert "2 tables, 0 not in step; applied 3 files with 5 rows" in output
    opened = target.open("sales.orders")
    assert opened is not None
    assert opened.to_pyarrow_table().select(["id", "note"]).to_pylist() == [{"id": 1, "note": "A"}]
    assert target.tables() == ["größe", "sales.orders"]
    assert PROCESS_SECRET not in output
    children = [line for line in seen if "mirrorgate.cli" not in line]
    assert any("spark_jobs.mirror\x00" in line for line in children)
    assert any("java" in line for line in children)
    assert not any(PROCESS_SECRET in line for line in children)


def test_a_process_that_cannot_use_its_target_says_why_and_ends(s3: S3, tmp_path: Path) -> None:
    zone = Zone(tmp_path)
    zone.land("orders", 1, [(1, "a", 0)])
    status, output, _ = run_mirror(zone, "s3://nowhere/x", s3.options)
    assert status == 78, output
    assert "NoSuchBucket" in output
    assert "Traceback" not in output
    assert s3.options["aws_secret_access_key"] not in output
