"""Settings that a bucket rejects, and a bucket that is away: what is wrong, what to do, and no secret."""

import socket
from collections.abc import Mapping

import pytest
from typer.testing import CliRunner

from app.mirror.target import MirrorTarget, shown, store_error
from app.mirror.target_lock import exclusive_target
from mirrorgate.cli.main import app
from mirrorgate.errors import Code, MirrorgateError, Misconfigured, TemporarilyUnavailable
from tests.mirror.faults.conftest import some_file
from tests.mirror.object_store.conftest import S3, Lake

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
