"""Schemathesis sends valid and invalid requests to every operation of a running gateway.

It fails for a server error, an answer that the contract does not have, content that does not fit its schema, an
accepted request that breaks the contract, a rejected one that fits it, a method that is not rejected with 405.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
import sqlalchemy as sa
from deltalake import write_deltalake

from app.staging.ledger.leases import renew_lease
from app.staging.mirror import store_reports
from tests.api.calls import ADMIN_KEY, own_gateway
from tests.support.gateway_parts import current
from tests.support.mirror_reports import report_of
from tests.support.postgres import sql
from tests.support.processes import REPOSITORY, succeeded
from tools.openapi import CONTRACT

CONFIGURATION = Path(__file__).with_name("schemathesis.toml")
SHORT = """
[[operations]]
include-path-regex = "^/v1/(changes/[a-z]+|tables/[{]table[}]/recreate)$"
phases.coverage.enabled = false
"""
"""Most of the requests that cover each limit of each parameter once are for the many forms of changes, which tests of
each format send, and for the declaration of a table, which two operations take."""


@pytest.fixture
def address(database_url: str, engine: sa.Engine, tmp_path: Path) -> Iterator[str]:
    """Give a gateway that is ready, with the tables of the contract's examples, which are mirrored."""
    sql.call(engine, renew_lease, uuid4(), 3600)
    target = tmp_path / "mirror"
    with own_gateway(database_url, mirror_target=str(target)) as client:
        client.register("tpch.nation", {"n_nationkey": "int32", "n_name": "string"}, ["n_nationkey"])
        write_deltalake(str(target / "tpch" / "nation"), pa.table({"n_nationkey": [7], "n_name": ["GERMANY"]}))
        assert store_reports(engine, [report_of(engine, current(engine, "tpch.nation"))]) == 1
        yield client.address


def fuzz(address: str, folder: Path, *options: str, configuration: Path = CONFIGURATION) -> None:
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(configuration), "run", str(CONTRACT)]
    command += ["--url", address, "--header", f"Authorization: Bearer {ADMIN_KEY}", "--no-color", "--warnings", "off"]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    succeeded(*command, *options, environment=environment, cwd=folder, timeout=900)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_gateway_answers_a_few_requests_of_each_kind_as_the_contract_says(address: str, tmp_path: Path) -> None:
    """The same requests every time."""
    short = tmp_path / "short.toml"
    short.write_text(CONFIGURATION.read_text() + SHORT)
    phases = ["--phases", "examples,coverage", "--generation-deterministic"]
    fuzz(address, tmp_path, *phases, configuration=short)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.timeout(1000)
def test_the_gateway_answers_many_requests_and_sequences_of_them_as_the_contract_says(
    address: str, tmp_path: Path
) -> None:
    """Others every time; the output of a failure says how to repeat it."""
    fuzz(address, tmp_path, "--max-examples", "100", "--max-time", "300")
