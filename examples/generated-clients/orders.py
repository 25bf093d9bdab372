"""Register a table, post changes and read its status with a client that openapi-python-client generated."""

import os

from mirrorgate_client import AuthenticatedClient
from mirrorgate_client.api.changes import (
    get_producer,
    post_arcion_changes,
    post_debezium_changes,
    post_replicate_changes,
    post_rows,
)
from mirrorgate_client.api.tables import get_table, register_table
from mirrorgate_client.models import (
    AcceptedModel,
    ArcionMessage,
    ColumnModel,
    DebeziumEnvelope,
    PlainRow,
    ProblemModel,
    ProducerModel,
    RegisteredTableModel,
    RegisterTable,
    ReplicateEnvelope,
    TableModel,
)

client = AuthenticatedClient(base_url=os.environ["MIRRORGATE_URL"], token=os.environ["MIRRORGATE_API_KEY"])


def insert(order: str, total: str) -> ArcionMessage:
    """Return Arcion's message of a new order."""
    return ArcionMessage.from_dict(
        {
            "tableName": {"namespace": {"schema": "python"}, "name": "orders"},
            "opType": "I",
            "after": {"id": order, "total": total},
            "exists": {"id": "1", "total": "1"},
        }
    )


columns = [ColumnModel(name="id", type_="int64", nullable=False), ColumnModel(name="total", type_="decimal(8,2)")]
table = register_table.sync("python.orders", client=client, body=RegisterTable(columns=columns, key_columns=["id"]))
assert isinstance(table, RegisteredTableModel), table
print(f"registered {table.table}, generation {table.generation}")

orders = [insert("1", "9.50"), insert("2", "20.00")]
first = post_arcion_changes.sync(client=client, body=orders, idempotency_key="python-orders-1-2")
assert isinstance(first, AcceptedModel), first
print(f"accepted {first.receipts[0].changes} changes as batch {first.receipts[0].sequence}")

again = post_arcion_changes.sync(client=client, body=orders, idempotency_key="python-orders-1-2")
assert isinstance(again, AcceptedModel), again
print(f"{'repeated: still' if again.replayed else 'a new'} batch {again.receipts[0].sequence}")

column = {"ordinal": 1, "type": "INT4", "primaryKeyPosition": 1, "nullable": False}
metadata = {
    "magic": "atMSG",
    "type": "MD",
    "message": {
        "schemaId": "3a9e",
        "lineage": {"schema": "python", "table": "JOBS", "tableVersion": 1},
        "tableStructure": {"tableColumns": {"ID": column}},
    },
}
data = {
    "magic": "atMSG",
    "type": "DT",
    "messageSchemaId": "3a9e",
    "message": {"data": {"ID": 7}, "headers": {"operation": "INSERT"}},
}
messages = [ReplicateEnvelope.from_dict(metadata), ReplicateEnvelope.from_dict(data)]
jobs = post_replicate_changes.sync(client=client, body=messages, idempotency_key="python-jobs-1")
assert isinstance(jobs, AcceptedModel), jobs
print(f"accepted {jobs.receipts[0].rows} row of {jobs.receipts[0].table}")

clicks = RegisterTable(columns=[ColumnModel(name="id", type_="int64", nullable=False)], key_columns=["id"])
assert isinstance(register_table.sync("python.clicks", client=client, body=clicks), RegisteredTableModel)
rows = post_rows.sync(
    client=client,
    body=[PlainRow.from_dict({"id": 1}), PlainRow.from_dict({"id": 2})],
    table="python.clicks",
    mirrorgate_producer="python/clicks",
    mirrorgate_producer_sequence=1,
    mirrorgate_producer_position="line 2",
)
assert isinstance(rows, AcceptedModel), rows
producer = get_producer.sync("python/clicks", client=client)
assert isinstance(producer, ProducerModel), producer
print(f"accepted {rows.receipts[0].rows} rows of {rows.receipts[0].table}, up to {producer.position}")

event = {"op": "c", "before": None, "after": {"id": 3}, "source": {"schema": "python", "table": "clicks"}}
events = post_debezium_changes.sync(
    client=client, body=[DebeziumEnvelope.from_dict(event)], idempotency_key="python-clicks-3"
)
assert isinstance(events, AcceptedModel), events
print(f"accepted {events.receipts[0].changes} event of {events.receipts[0].table}")

status = get_table.sync("python.orders", client=client)
assert isinstance(status, TableModel), status
print(f"{status.table}: {status.accepted.rows} rows accepted, state {status.state.value}")

rejected = post_arcion_changes.sync(client=client, body=insert("3", "a lot"))
assert isinstance(rejected, ProblemModel) and rejected.errors, rejected
print(f"rejected: {rejected.code} at {rejected.errors[0].pointer}, column {rejected.errors[0].column}")
