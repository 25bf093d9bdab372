"""A target in a bucket has no lock: its Delta logs guard the rows, and the mirror waits while the bucket is away."""

from collections.abc import Iterator

import pytest

from app.mirror import target_lock
from app.mirror.target_lock import exclusive_target
from mirrorgate.errors import Code, TemporarilyUnavailable
from tests.mirror.object_store.conftest import S3

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
