"""What a change batch says of transactions, so that files do not cut them."""

import json

import pytest

from app.domain.rows.landing_rows import landing_rows
from app.formats.replicate.messages import decode_replicate
from tests.support.samples.schemas import schema_of

SCHEMA = schema_of({"a": "int32"})


@pytest.mark.parametrize(
    ("flags", "ends"),
    [
        ([], True),
        ([False, True], True),
        ([True, False], False),
        ([False], False),
        ([None], True),
        ([False, None], True),
    ],
)
def test_a_batch_ends_a_transaction_when_its_last_change_does_or_does_not_say(
    flags: list[bool | None], ends: bool
) -> None:
    headers = [{"operation": "INSERT", "transactionId": "0A", "transactionLastEvent": flag} for flag in flags]
    messages = [{"headers": header, "data": {"a": 1}} for header in headers] or [{"message": None}]
    changes = decode_replicate(json.dumps(messages).encode()).changes
    assert landing_rows([message.change for message in changes], SCHEMA).ends_transaction is ends
