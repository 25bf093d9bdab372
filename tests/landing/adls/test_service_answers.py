"""What a storage service answers, and what is tried again; addresses of landing zones."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from app.landing.adls.retries import StorageRejected, TransientStorageError
from app.landing.adls.zone import AdlsZone
from app.landing.open_zone import open_zone
from app.landing.zone import PathKind, RenameOutcome
from mirrorgate_zone.emulator import TOKEN, OneLake, Trust, answer
from tests.support.http.stand_in import StandIn, serving
from tests.support.onelake.clients import FakeTime, adls_zone, onelake_address
from tests.support.onelake.fixtures import NewOneLake


def test_what_the_service_asks_to_wait_is_waited(onelake: OneLake, zone: AdlsZone, time: FakeTime) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
    onelake.faults.plan(
        "create",
        answer(429, "TooManyRequests", retry_after="7"),
        answer(503, "ServerBusy", retry_after=date),
        answer(503, "ServerBusy", retry_after="soon"),
    )
    zone.create_file("scratch/f", b"x")
    assert time.slept[0] == 7.1
    assert 15 < time.slept[1] < 21
    assert time.slept[2] < 1


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_what_may_pass_is_tried_again_until_the_seconds_are_spent(
    onelake: OneLake, zone: AdlsZone, time: FakeTime, status: int
) -> None:
    onelake.faults.plan("head", *[answer(status, "Passing")] * 3)
    assert zone.kind("scratch") is PathKind.FOLDER
    onelake.faults.plan("head", *[answer(status, "Passing")] * 1_000)
    with pytest.raises(OSError, match=f"read properties of scratch: {status} Passing"):
        zone.kind("scratch")
    assert 45 < time.now < 65


@pytest.mark.parametrize(("status", "code"), [(403, "AuthorizationFailure"), (404, "FilesystemNotFound"), (405, "X")])
def test_what_will_not_pass_is_told_at_once(
    onelake: OneLake, zone: AdlsZone, time: FakeTime, status: int, code: str
) -> None:
    for operation, call in (
        ("head", lambda: zone.kind("scratch")),
        ("list", lambda: zone.names("scratch")),
        ("create", lambda: zone.create_file("scratch/f", b"x")),
        ("create_folder", lambda: zone.create_folder("d")),
    ):
        onelake.faults.plan(operation, answer(status, code))
        with pytest.raises(OSError, match=f"{status} {code}"):
            call()
    assert time.slept == []


@pytest.mark.parametrize("challenge", [True, False])
def test_a_token_that_runs_out_is_renewed_and_a_wrong_one_is_told_soon(
    new_onelake: NewOneLake, trust: Trust, time: FakeTime, challenge: bool
) -> None:
    onelake = new_onelake(challenge=challenge)
    tokens = ["test-token", "new-token", "wrong"]

    class Renewed:
        def get_token(self, *_: str, **__: Any) -> Any:
            from azure.core.credentials import AccessToken

            return AccessToken(tokens[0], 2**33)

    zone = adls_zone(onelake, trust, time, credential=Renewed)
    zone.create_folder("scratch")
    onelake.tokens = {"new-token"}
    del tokens[0]
    zone.create_file("scratch/f", b"x")
    onelake.tokens = {"another"}
    with pytest.raises(OSError, match="401"):
        zone.kind("scratch")
    assert time.now < 10


def test_no_credential_at_all_is_told_at_once(onelake: OneLake, trust: Trust, time: FakeTime) -> None:
    class NoCredential:
        def get_token(self, *_: str, **__: Any) -> Any:
            from azure.identity import CredentialUnavailableError

            raise CredentialUnavailableError("nothing is set")

    with pytest.raises(StorageRejected, match="no credential"):
        adls_zone(onelake, trust, time, credential=NoCredential).kind("")
    assert time.slept == []


@contextmanager
def machine_identity() -> Iterator[tuple[str, list[str]]]:
    """Give a local endpoint that hands out tokens, as Azure machines have, and the requests to it."""
    asked: list[str] = []

    class Identity(StandIn):
        protocol_version = "HTTP/1.0"

        def respond(self) -> None:
            asked.append(parse_qs(urlsplit(self.path).query)["resource"][0])
            body = json.dumps({"access_token": TOKEN, "expires_on": str(2**33), "token_type": "Bearer"}).encode()
            self.answer(200, body, Content_Type="application/json")

    with serving(Identity) as address:
        yield f"{address}/", asked


def test_without_a_credential_of_its_own_it_finds_the_machines(
    onelake: OneLake, trust: Trust, monkeypatch: pytest.MonkeyPatch
) -> None:
    with machine_identity() as (url, asked):
        monkeypatch.setenv("IDENTITY_ENDPOINT", url)
        monkeypatch.setenv("IDENTITY_HEADER", "secret")
        zone = open_zone(onelake_address(onelake, trust, credential=None))
        zone.create_file("f", b"x")
        assert zone.kind("f") is PathKind.FILE
    assert asked == ["https://storage.azure.com"]


def test_an_older_version_of_the_protocol_may_be_asked_for(
    new_onelake: NewOneLake, trust: Trust, time: FakeTime
) -> None:
    onelake = new_onelake(newest_version="2023-11-03")
    with pytest.raises(OSError, match="400"):
        adls_zone(onelake, trust, time).kind("")
    zone = adls_zone(onelake, trust, time, api_version="2023-11-03")
    zone.create_file("scratch/f", b"x")
    assert zone.rename("scratch/f", "t") is RenameOutcome.RENAMED
    with zone.read_file("t") as file:
        assert file.read() == b"x"
    zone.revoke_folder("scratch")
    assert zone.names("") == ["scratch", "t"]


def test_a_plain_account_is_a_landing_zone_too(new_onelake: NewOneLake, trust: Trust, time: FakeTime) -> None:
    zone = adls_zone(new_onelake(account=True), trust, time)
    zone.create_file("scratch/f", b"x")
    assert zone.rename("scratch/f", "moved") is RenameOutcome.RENAMED


def test_what_a_store_says_at_last_names_call_path_status_and_request(onelake: OneLake, zone: AdlsZone) -> None:
    onelake.faults.plan("create", *[answer(503, "ServerBusy")] * 1_000)
    with pytest.raises(TransientStorageError, match=r"^create scratch/f: 503 ServerBusy \(request [0-9a-f-]*\)$"):
        zone.create_file("scratch/f", b"x")


def failing(*errors: Exception) -> Callable[[bool], list[bool]]:
    """Return a step that raises these errors one after the other, then returns what it was told each time."""
    waiting, told = list(errors), list[bool]()

    def step(unclear: bool) -> list[bool]:
        told.append(unclear)
        if waiting:
            raise waiting.pop(0)
        return told

    return step


def again(*, unclear: bool = False, after: float | None = None, few: bool = False) -> TransientStorageError:
    return TransientStorageError("again", unclear=unclear, retry_after=after, few=few)


def test_a_step_is_told_from_the_first_unclear_answer_on_that_it_may_have_been_done() -> None:
    assert FakeTime().retries().run(failing(again(), again(unclear=True), again())) == [False, False, True, True]


def test_the_pauses_grow_are_random_and_have_a_longest() -> None:
    time = FakeTime()
    time.retries(1_000).run(failing(*[again()] * 8))
    assert time.slept == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 4.0, 4.0]


def test_what_the_service_asks_for_is_waited_at_least() -> None:
    time = FakeTime()
    time.retries().run(failing(again(after=7), again(after=0)))
    assert time.slept == [7.1, 0.1]


def test_it_gives_up_before_a_pause_that_would_end_too_late() -> None:
    time = FakeTime()
    with pytest.raises(TransientStorageError):
        time.retries(10).run(failing(again(), again(after=30)))
    assert time.now < 10
    with pytest.raises(TransientStorageError):
        time.retries(10).run(failing(*[again()] * 1_000))
    assert time.now < 20


def test_some_answers_are_worth_a_few_tries_only() -> None:
    time = FakeTime()
    with pytest.raises(TransientStorageError):
        time.retries(1_000).run(failing(*[again(few=True)] * 6))
    assert len(time.slept) == 5


@pytest.mark.parametrize("error", [StorageRejected("no", status=403, code="x"), ValueError(), KeyboardInterrupt()])
def test_a_clear_answer_is_not_repeated(error: Exception) -> None:
    time = FakeTime()
    with pytest.raises(type(error)):
        time.retries().run(failing(error))
    assert time.slept == []
