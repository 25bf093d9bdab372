"""The time that an upload may take, by the bytes received of those declared."""

import pytest

from app.api.limits import TransferDeadline

MIB = 2**20
DEADLINE = TransferDeadline(max_seconds=300, grace_seconds=10, min_rate=1024)


@pytest.mark.parametrize(
    ("received", "declared", "seconds"),
    [
        (0, 0, 10),  # no length: the rate alone
        (1024, 0, 11),
        (1024, 100_000, 11),
        (0, 64 * MIB, 10),
        (13_000, 64 * MIB, 10.058),  # 1.3 KB a second for the grace: rejected right after it
        (32 * MIB, 64 * MIB, 160),
        (64 * MIB, 64 * MIB, 300),
    ],
)
def test_a_large_body_must_come_at_the_rate_that_its_length_needs(received: int, declared: int, seconds: float) -> None:
    assert DEADLINE.seconds(received, declared) == pytest.approx(seconds, abs=0.01)
