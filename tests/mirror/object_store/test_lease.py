"""The lease of a target in a bucket: one mirror at a time, and a store that is away is asked again."""

import os
import threading
from pathlib import Path

import pytest

from app.errors import Code, Misconfigured, TemporarilyUnavailable
from app.mirror.target import MirrorTarget
from app.mirror.target_lock import exclusive_target
from app.mirror.target_lock.exclusive import RenewedLease
from app.mirror.target_lock.lease import LEASE_TABLE, TargetLease
from tests.mirror.lease_races import race
from tests.mirror.object_store.conftest import S3
from tests.support.waiting import wait_until

IMPATIENT = {"timeout": "0.2s", "max_retries": "0"}


def lease(target: MirrorTarget, seconds: float = 60.0) -> TargetLease:
    return TargetLease(target.location, target.storage_options, lease_seconds=seconds)


def test_a_second_mirror_is_rejected_until_the_first_one_ends(s3: S3) -> None:
    target = s3.target("/mirror of größe")
    with exclusive_target(target.location, target.storage_options) as held:
        held.check()
        with pytest.raises(Misconfigured) as rejected:
            lease(target).acquire()
        assert rejected.value.code is Code.MIRROR_RUNNING
        assert f"pid {os.getpid()}" in rejected.value.detail
    lease(target).acquire()
    assert target.tables() == []
    assert target.open_at(f"{target.location}/{LEASE_TABLE}") is not None


def test_an_ended_lease_is_taken_over_and_its_owner_notices(s3: S3) -> None:
    target = s3.target()
    first = lease(target, seconds=0.0)
    first.acquire()
    lease(target).acquire()
    renewed = RenewedLease(first, pause_seconds=0.0)
    renewed.keep(threading.Event())
    with pytest.raises(Misconfigured) as lost:
        renewed.check()
    assert lost.value.code is Code.MIRROR_RUNNING


def test_of_several_mirrors_that_take_a_free_lease_one_has_it(s3: S3) -> None:
    target = s3.target()
    outcomes = race(lambda: lease(target), 4)
    assert (outcomes.count(None), outcomes.count(Code.MIRROR_RUNNING)) == (1, 3)


def test_a_mirror_waits_while_its_bucket_is_away_and_continues(s3: S3, tmp_path: Path) -> None:
    target = s3.target(**IMPATIENT)
    taken = lease(target)
    taken.acquire()
    renewed, over = RenewedLease(taken, pause_seconds=0.01), threading.Event()
    thread = threading.Thread(target=renewed.keep, args=(over,))

    def fault() -> TemporarilyUnavailable | None:
        try:
            renewed.check()
        except TemporarilyUnavailable as away:
            return away
        return None

    with s3.away():
        thread.start()
        found = wait_until(fault, within=60, what="the store is away")
        assert found is not None
        assert found.code is Code.MIRROR_AWAY
        assert "operation timed out" in found.detail
    wait_until(lambda: fault() is None, within=60, what="the lease is renewed")
    over.set()
    thread.join()
