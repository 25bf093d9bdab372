"""Killed bridges, moved partitions and lost answers: every record lands once and in the order of its partition."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.api.calls import ADMIN_KEY
from tests.chaos.kafka.run import Plan, run


@pytest.mark.usefixtures("gateway")  # which empties the database
@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(Plan(kills=2, rebalances=1, bridges=2, partitions=2, lost_answers=0.1), id="short"),
        pytest.param(
            Plan(kills=200, rebalances=50), id="long", marks=[pytest.mark.thorough, pytest.mark.timeout(1200)]
        ),
    ],
)
def test_whatever_is_killed_or_lost_every_record_lands_once_and_in_order(
    plan: Plan, api_address: str, api_engine: sa.Engine, tmp_path: Path
) -> None:
    outcome = run(tmp_path, api_address, ADMIN_KEY, api_engine, plan, seed=7)
    assert outcome.violations == ()
    assert (outcome.kills, outcome.rebalances) == (plan.kills, plan.rebalances)
    assert outcome.records > 0
