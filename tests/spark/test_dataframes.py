"""`mirrorgate.mirror` with a DataFrame of Spark and the real gateway."""

from collections.abc import Iterator
from decimal import Decimal

import pytest
import sqlalchemy as sa
from pyspark.sql import SparkSession

import mirrorgate
from mirrorgate import GatewayClient
from tests.api.calls import ADMIN_KEY, Gateway
from tests.api.commands import staged
from tests.api.conftest import api_address, api_database, api_engine, gateway

__all__ = ["api_address", "api_database", "api_engine", "gateway"]


@pytest.fixture
def client(gateway: Gateway, api_address: str) -> Iterator[GatewayClient]:
    with GatewayClient(api_address, ADMIN_KEY) as client:
        yield client


def test_a_dataframe_of_spark_is_registered_and_sent_with_its_types(
    spark: SparkSession, client: GatewayClient, api_engine: sa.Engine
) -> None:
    rows = [(1, "a", Decimal("1.25")), (2, None, Decimal("2.50"))]
    frame = spark.createDataFrame(rows, "id bigint, name string, total decimal(12, 2)").coalesce(1)
    (receipt,) = mirrorgate.mirror(frame, "t", key="id", client=client)
    assert receipt.changes == 2
    assert staged(api_engine, "t") == rows
    types = {column["name"]: column["type"] for column in client.get("/v1/tables/t/schema")["columns"]}
    assert types == {"id": "int64", "name": "string", "total": "decimal(12,2)"}
