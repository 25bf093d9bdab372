"""A request is retried with its key until it is answered; one without an answer is named; progress is for terminals."""

import io
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from rich.console import Console

from mirrorgate.chunking.chunks import Limits
from mirrorgate.chunking.json_messages import split_json
from mirrorgate.errors import Code, MirrorgateError
from mirrorgate.file_content import StreamCutter
from mirrorgate.http import GatewayClient
from mirrorgate.send.progress import Progress, ProgressDisplay
from mirrorgate.send.sender import Sender, SendFailed
from tests.client.send.fake_gateway import Answer, FakeGateway, accepts, breaks_off, fake_gateway, rejects

MESSAGES = [b'{"a":1}', b'{"b":2}', b'{"c":3}']


class Sending:
    """Sends three messages, one in a request, and notes the pauses instead of making them."""

    def __init__(self, gateway: FakeGateway, give_up_after: float = 60.0) -> None:
        self.pauses: list[float] = []
        self.waits: list[MirrorgateError] = []
        self._client = GatewayClient(gateway.url, "mg_a_key")
        self.sender = Sender(
            lambda body, headers: self._client.post_changes("arcion", body, headers=headers),
            StreamCutter(split_json),
            give_up_after,
            self.pauses.append,
            on_retry=lambda _, error: self.waits.append(error),
        )

    def run(self, skip: int = 0) -> None:
        """Send the messages behind the first `skip`."""
        with self._client:
            self.sender.send([b"\n".join(MESSAGES)], Limits(1), skip)

    def error(self) -> SendFailed:
        """Send the messages; return what ends it before their end."""
        with pytest.raises(SendFailed) as raised:
            self.run()
        return raised.value


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    with fake_gateway() as gateway:
        yield gateway


def sent_bodies(gateway: FakeGateway) -> list[bytes]:
    return [body.strip() for body in gateway.bodies]


def test_requests_go_out_in_order_each_once(gateway: FakeGateway) -> None:
    sending = Sending(gateway)
    sending.run()
    assert sent_bodies(gateway) == MESSAGES
    sent = sending.sender.progress
    assert (sent.requests, sent.changes, sent.next_message, sent.in_doubt) == (3, 3, 3, None)
    assert sent.tables["t"].last_sequence == 7
    assert sending.pauses == []


@pytest.mark.parametrize(
    "answer",
    [
        rejects(503, "table_busy", Retry_After="3"),
        rejects(503, "database_unavailable", Retry_After="3"),
        rejects(429, "backlog_full", Retry_After="3"),
        rejects(408, "request_timeout", Retry_After="3"),
    ],
)
def test_a_request_that_cannot_be_taken_yet_is_repeated_after_the_time_asked_for(
    gateway: FakeGateway, answer: Answer
) -> None:
    gateway.answers += [accepts, answer, answer]
    sending = Sending(gateway)
    sending.run()
    assert sent_bodies(gateway) == [MESSAGES[0], *[MESSAGES[1]] * 3, MESSAGES[2]]
    assert sending.pauses == [3.0, 3.0]
    assert [wait.detail for wait in sending.waits] == ["as the test says"] * 2


def test_without_a_time_asked_for_the_pauses_grow_from_little(gateway: FakeGateway) -> None:
    gateway.answers += [rejects(503, "table_busy", Retry_After="Wed, 21 Oct 2026 07:28:00 GMT")] * 5
    sending = Sending(gateway)
    sending.run()
    assert len(sending.pauses) == 5
    assert all(0 <= pause <= 0.25 * 2**number for number, pause in enumerate(sending.pauses))


def test_a_pause_beyond_the_patience_is_not_made(gateway: FakeGateway) -> None:
    gateway.answers += [accepts, rejects(503, "table_busy", Retry_After="61")]
    sending = Sending(gateway)
    error = sending.error()
    assert (error.code, sending.pauses) == (Code.TABLE_BUSY, [])
    assert error.remedy.endswith("Then send the rest with --from-message 1.")
    assert sending.sender.progress.in_doubt is None


def test_a_gateway_that_is_away_is_tried_again(gateway: FakeGateway) -> None:
    with fake_gateway() as gone:
        pass
    sending = Sending(gateway)
    clients = [GatewayClient(gone.url, "mg_a_key"), GatewayClient(gone.url, "mg_a_key")]
    present = sending.sender.post

    def post(body: bytes, headers: Mapping[str, str]) -> Mapping[str, Any]:
        if not clients:
            return present(body, headers)
        with clients.pop() as client:
            answer: Mapping[str, Any] = client.post_changes("arcion", body, headers=headers)
            return answer

    sending.sender.post = post
    sending.run()
    assert [wait.code for wait in sending.waits] == [Code.NOT_READY] * 2
    assert sent_bodies(gateway) == MESSAGES


LOST = [breaks_off, rejects(503, "commit_unknown"), rejects(502, "internal"), rejects(504, "internal")]


@pytest.mark.parametrize("lost", [*LOST, rejects(500, "internal")])
def test_a_request_that_was_lost_or_met_a_fault_is_repeated_under_its_key(gateway: FakeGateway, lost: Answer) -> None:
    gateway.answers += [accepts, lost, lost]
    sending = Sending(gateway)
    sending.run()
    assert sent_bodies(gateway) == [MESSAGES[0], *[MESSAGES[1]] * 3, MESSAGES[2]]
    first, *second, third = gateway.keys
    assert len(set(second)) == 1
    assert len({first, second[0], third}) == 3
    assert sending.sender.progress.in_doubt is None


@pytest.mark.parametrize("lost", LOST)
@pytest.mark.parametrize("later", [[], [rejects(503, "table_busy")], [rejects(429, "backlog_full")]])
def test_a_request_that_is_never_answered_stays_in_doubt(
    gateway: FakeGateway, lost: Answer, later: list[Answer]
) -> None:
    last = rejects(503, "commit_unknown", Retry_After="61")
    gateway.answers += [accepts, lost, *later, rejects(503, "table_busy", Retry_After="61") if later else last]
    sending = Sending(gateway)
    error = sending.error()
    assert sending.sender.progress.in_doubt == (1, 1)
    assert "messages 1 to 1 may have been accepted" in error.detail
    assert "--from-message 2, else with --from-message 1" in error.remedy


@pytest.mark.parametrize(("code", "option"), [("body_too_large", "--max-bytes"), ("too_many_messages", "--batch")])
def test_a_request_that_is_too_large_names_the_option_that_makes_it_smaller(
    gateway: FakeGateway, code: str, option: str
) -> None:
    gateway.answers += [rejects(413, code)]
    assert Sending(gateway).error().remedy == f"Give a smaller {option}."


def test_a_rejection_after_a_lost_answer_leaves_nothing_in_doubt(gateway: FakeGateway) -> None:
    gateway.answers += [accepts, breaks_off, rejects(422, "bad_value")]
    sending = Sending(gateway)
    error = sending.error()
    assert (error.code, sending.sender.progress.in_doubt) == (Code.BAD_VALUE, None)


def test_a_rejection_ends_the_sending(gateway: FakeGateway) -> None:
    gateway.answers += [accepts, rejects(409, "schema_mismatch")]
    sending = Sending(gateway)
    error = sending.error()
    assert (error.code, sending.sender.progress.next_message) == (Code.SCHEMA_MISMATCH, 1)
    assert sent_bodies(gateway) == MESSAGES[:2]


def test_messages_that_were_accepted_before_are_left_out(gateway: FakeGateway) -> None:
    sending = Sending(gateway)
    sending.run(skip=2)
    assert sent_bodies(gateway) == MESSAGES[2:]


@pytest.mark.parametrize(
    ("chunk", "code"),
    [
        (b"\x1f\x8b\x08\0", Code.BAD_ENCODING),
        (b"\x28\xb5\x2f\xfd", Code.BAD_ENCODING),
        (b" \n", Code.EMPTY_REQUEST),
        (b"a,b\n", Code.MALFORMED_JSON),
    ],
)
def test_a_stream_that_holds_no_messages_is_rejected_before_anything_is_sent(
    gateway: FakeGateway, chunk: bytes, code: Code
) -> None:
    sending = Sending(gateway)
    with pytest.raises(SendFailed) as raised:
        sending.sender.send([chunk], Limits(100))
    assert raised.value.code == code
    assert gateway.bodies == []


@pytest.mark.parametrize("total", [100, None])
def test_a_terminal_shows_how_many_changes_were_accepted_and_a_pipe_nothing(total: int | None) -> None:
    shown = {}
    for terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=terminal, width=140)
        display = ProgressDisplay(console)
        with display.running():
            display.start_file("a.json", total, 2)
            display.add_read(50)
            display.show_accepted(Progress(bytes=50, changes=1_200))
        assert isinstance(console.file, io.StringIO)
        shown[terminal] = console.file.getvalue()
    assert "1,200 changes" in shown[True]
    assert "2 more files" in shown[True]
    assert shown[False] == ""
