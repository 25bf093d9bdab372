"""A producer of the client library: each request is durable once, whatever fails between it and the real gateway."""

import threading
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mirrorgate.errors import Code, Misconfigured, TemporarilyUnavailable
from mirrorgate.http import GatewayClient, RejectedByGateway
from mirrorgate.producer import ChangeRequest, Patience, Producer, ProducerConflict, Stopped
from tests.api.calls import ADMIN_KEY, Gateway
from tests.api.commands import staged
from tests.client.send.fake_gateway import answer, fake_gateway
from tests.support.http.faulty_proxy import Fault, FaultyProxy
from tests.support.postgres import sql


class Hasty(threading.Event):
    """A stop that no wait waits for; `waits` holds the seconds that were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        return self.is_set()


@pytest.fixture
def client(proxy: FaultyProxy) -> Iterator[GatewayClient]:
    with GatewayClient(proxy.url, ADMIN_KEY) as client:
        yield client


def row(number: int, table: str = "t", position: str | None = None) -> ChangeRequest:
    return ChangeRequest("rows", b'{"id": %d}' % number, {"table": table}, position=position)


def hasty() -> Patience:
    return Patience(stop=Hasty())


@given(
    faults=st.lists(st.sampled_from(Fault), max_size=12),
    positions=st.lists(st.sampled_from([None, "a", "b c"]), min_size=4, max_size=4),
    restarts=st.sets(st.integers(0, 3)),
)
@settings(max_examples=4, phases=[Phase.generate], suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_request_lands_once_and_in_order_whatever_fails(
    proxy: FaultyProxy,
    client: GatewayClient,
    gateway: Gateway,
    numbers: Iterator[int],
    faults: list[Fault],
    positions: list[str | None],
    restarts: set[int],
) -> None:
    name = f"t{next(numbers)}"
    gateway.register(name, {"id": "int64"}, ["id"]).raise_for_status()
    proxy.faults[:] = faults
    producer = Producer.open(client, f"p/{name}", hasty())
    last = None
    for number, position in enumerate(positions):
        if number in restarts:
            producer = Producer.open(client, f"p/{name}", hasty())
        assert (producer.sequence, producer.position) == (number, last)
        producer.send(row(number, name, position))
        last = position or last
        assert (producer.sequence, producer.position) == (number + 1, last)
    assert [key for (key,) in staged(gateway.engine, name)] == [0, 1, 2, 3]
    state = gateway.get(f"/v1/producers/p%2F{name}").json()
    assert (state["sequence"], state["position"]) == (4, last)


def test_a_wait_is_at_least_as_long_as_the_gateway_asks_and_is_reported(
    proxy: FaultyProxy, client: GatewayClient
) -> None:
    proxy.faults[:] = [Fault.TOO_MUCH, Fault.TOO_MUCH]
    stop, waits = Hasty(), []
    patience = Patience(stop=stop, on_wait=lambda seconds, error: waits.append((seconds, error.code)))
    Producer.open(client, "p", patience).send(row(1))
    assert stop.waits == [7.0, 7.0]
    assert waits == [(7.0, Code.RATE_LIMITED)] * 2


def test_a_stop_ends_the_repeating_and_the_next_process_finds_out(
    proxy: FaultyProxy, client: GatewayClient, api_engine: sa.Engine
) -> None:
    patience = Patience()
    producer = Producer.open(client, "p", patience)
    proxy.faults[:] = [Fault.LOST]
    patience.stop.set()
    with pytest.raises(Stopped):
        producer.send(row(1, position="41"))
    assert (producer.sequence, producer.position) == (0, None)
    producer.refresh()
    assert (producer.sequence, producer.position) == (1, "41")
    assert staged(api_engine, "t") == [(1,)]


def test_patience_ends(proxy: FaultyProxy, client: GatewayClient) -> None:
    producer = Producer.open(client, "p", Patience(give_up_after=0))
    proxy.faults[:] = [Fault.LOST, Fault.BUSY]
    with pytest.raises(TemporarilyUnavailable):
        producer.send(row(1))
    with pytest.raises(RejectedByGateway) as busy:
        producer.send(row(1))
    assert (busy.value.status, busy.value.code) == (503, Code.DATABASE_UNAVAILABLE)
    assert producer.send(row(1))["replayed"] is True


def test_a_rejected_request_leaves_its_number_to_the_corrected_one(client: GatewayClient) -> None:
    producer = Producer.open(client, "p", hasty())
    with pytest.raises(RejectedByGateway) as rejected:
        producer.send(ChangeRequest("rows", b'{"id": 1}\n{"id": "x"}', {"table": "t"}))
    assert (rejected.value.status, rejected.value.code) == (422, Code.BAD_VALUE)
    assert rejected.value.errors[0]["index"] == 1
    producer.send(row(1))
    assert producer.sequence == 1


def test_two_processes_of_one_name_are_told_apart(client: GatewayClient, api_engine: sa.Engine) -> None:
    one, other = (Producer.open(client, "p", hasty()) for _ in range(2))
    one.send(row(1, position="1"))
    with pytest.raises(ProducerConflict) as conflict:
        other.send(row(2, position="2"))
    assert (conflict.value.code, "another process sends as the producer p" in conflict.value.detail) == (
        Code.PRODUCER_SEQUENCE_REUSED,
        True,
    )
    other.refresh()
    assert other.position == "1"
    other.send(row(2, position="2"))
    sql.run(api_engine, "UPDATE mirrorgate.producers SET last_sequence = 0")
    with pytest.raises(ProducerConflict) as gap:
        other.send(row(3))
    assert gap.value.code is Code.PRODUCER_GAP
    assert "the gateway lacks requests of the producer p" in gap.value.detail
    assert staged(api_engine, "t") == [(1,), (2,)]


def test_a_gateway_without_positions_is_rejected_before_anything_is_sent() -> None:
    older = {"producer": "p", "sequence": 3, "receipts": None}
    with (
        fake_gateway(lambda handler: answer(handler, 200, older)) as gateway,
        GatewayClient(gateway.url, "mg_a_key") as client,
        pytest.raises(Misconfigured) as old,
    ):
        Producer.open(client, "p", hasty())
    assert "stores no positions" in old.value.detail
