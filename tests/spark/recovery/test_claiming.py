"""What the drain does with the landing zone before it publishes."""

import os
import signal
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from pydantic import SecretStr
from pyspark.sql import SparkSession

from app.domain.publication import KnownZone
from app.landing import zone_owner
from app.landing.open_zone import ZoneAddress
from app.landing.zone_owner import ZONE_MARKER, claim_zone
from app.settings import Settings
from app.staging.connection.database import installation_id
from mirrorgate.errors import Code, Misconfigured
from spark_jobs import drain_process as drains
from spark_jobs.build_files import MIN_LOCAL_JOB_BYTES
from spark_jobs.drain_cycle import DrainCycle
from spark_jobs.drain_process import run_drain
from tests.support.gateway_parts import landed_keys, registered, stage_keys
from tests.support.postgres import sql
from tests.support.samples.schemas import ID

OTHER = UUID(int=2)


@pytest.fixture
def settings(
    database_url: str, landing_zone: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Settings]:
    """Of a drain that runs in this process."""
    opened: list[DrainCycle] = []

    def configured_cycle(*given: Any) -> DrainCycle:
        opened.append(real(*given))
        return opened[-1]

    real = drains.configured_cycle
    monkeypatch.setattr(drains, "configured_cycle", configured_cycle)
    monkeypatch.setattr(drains, "running_spark", lambda *_, **__: nullcontext(spark))
    monkeypatch.setattr(drains, "configure_logging", lambda _: None)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield Settings(
        database_url=SecretStr(database_url), landing_zone=str(landing_zone), allow_unsafe=True, max_delay_seconds=0
    )
    for number, handler in before.items():
        signal.signal(number, handler)
    for cycle in opened:
        cycle.context.engine.dispose()


def test_a_drain_claims_its_landing_zone_once_and_publishes(
    engine: sa.Engine, settings: Settings, landing_zone: Path
) -> None:
    table = registered(engine, "t", ID)
    for key in (1, 2):
        stage_keys(engine, table, [key])
        run_drain(settings, once=True)
    assert str(sql.call(engine, installation_id)) in (landing_zone / ZONE_MARKER).read_text()
    assert landed_keys(landing_zone, "t") == [[1], [2]]


def test_a_drain_that_a_signal_ends_before_everything_is_published_says_so(
    engine: sa.Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    stage_keys(engine, registered(engine, "t", ID), [1])
    monkeypatch.setattr(DrainCycle, "prepare", ended)
    with pytest.raises(SystemExit) as exited:
        run_drain(settings, once=True)
    assert exited.value.code == 130


@pytest.mark.parametrize(("setting", "min_bytes"), [(None, MIN_LOCAL_JOB_BYTES), (0, 0), (7, 7)])
def test_a_drain_in_local_mode_leaves_only_large_files_to_spark_unless_a_setting_says_otherwise(
    settings: Settings, spark: SparkSession, setting: int | None, min_bytes: int
) -> None:
    given = settings.model_copy(update={"spark_job_min_bytes": setting})
    assert drains.configured_cycle(given, spark, OTHER).builder.spark_job_min_bytes == min_bytes


def test_a_zone_that_another_gateway_claims_while_spark_starts_is_left_to_it(
    engine: sa.Engine, settings: Settings, landing_zone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage_keys(engine, registered(engine, "t", ID), [1])
    claim = zone_owner.claim_zone

    def late(address: ZoneAddress, installation: UUID, known: KnownZone | None) -> KnownZone:
        claim(address, OTHER)
        return claim(address, installation, known)

    monkeypatch.setattr("app.checks.landing_zone.claim_zone", late)
    with pytest.raises(Misconfigured, match=Code.LANDING_ZONE_TAKEN):
        run_drain(settings, once=True)
    assert not (landing_zone / "t").exists()
    assert not (landing_zone / "_partnerEvents.json").exists()
    claim_zone(ZoneAddress(str(landing_zone)), OTHER)


def test_a_scratch_that_is_a_file_ends_the_start(settings: Settings, landing_zone: Path) -> None:
    landing_zone.mkdir()
    (landing_zone / "_scratchPad").touch()
    with pytest.raises(Misconfigured, match=Code.LANDING_ZONE_UNUSABLE):
        run_drain(settings, once=True)
