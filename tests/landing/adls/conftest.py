"""A zone in a OneLake stand-in with a scratch folder, and the time that its retries see."""

import pytest

from app.landing.adls.zone import AdlsZone
from mirrorgate_zone.emulator import OneLake, Trust
from tests.support.onelake.clients import FakeTime, adls_zone


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def zone(onelake: OneLake, trust: Trust, time: FakeTime) -> AdlsZone:
    zone = adls_zone(onelake, trust, time, block_bytes=8, answer_seconds=0.3)
    zone.create_folder("scratch")
    onelake.seen.clear()
    return zone
