"""The real SDK with production addresses, connected to the endpoint."""

import time
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from azure.core.credentials import AccessToken
from azure.storage.filedatalake import DataLakeServiceClient, FileSystemClient

from app.landing.adls.address import StorageAddress, StorageOptions
from app.landing.adls.client import AdlsClient
from app.landing.adls.retries import Retries
from app.landing.adls.zone import AdlsZone
from app.landing.open_zone import ZoneAddress
from mirrorgate_zone.emulator.onelake import TOKEN, OneLake, Trust
from tests.support.waiting import Clock


@dataclass(frozen=True)
class FixedToken:
    """A credential that travels in a pickle; `text` is the token."""

    text: str = TOKEN

    def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        assert scopes == ("https://storage.azure.com/.default",), scopes
        return AccessToken(self.text, int(time.time()) + 3_600)


def file_system(endpoint: OneLake, trust: Trust, *, credential: Any = None, **options: Any) -> FileSystemClient:
    """Return the SDK's client for the endpoint's workspace, without the SDK's retries."""

    def send_here(request: Any) -> None:
        parts = urlsplit(request.http_request.url)
        request.http_request.headers["Host"] = parts.netloc
        request.http_request.url = urlunsplit(("https", urlsplit(endpoint.address).netloc, *parts[2:]))

    service = DataLakeServiceClient(
        f"https://{endpoint.hosts['dfs']}",
        credential=credential or FixedToken(),
        raw_request_hook=send_here,
        connection_verify=str(trust.authority_file),
        **{"retry_total": 0, "read_timeout": 0.5} | options,
    )
    return service.get_file_system_client(endpoint.workspace[0])


class FakeTime(Clock):
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        super().__init__(0.0)

    def retries(self, seconds: float = 60.0) -> Retries:
        return Retries(seconds, clock=self, sleep=self.sleep, chance=lambda: 0.5)


def onelake_address(endpoint: OneLake, trust: Trust, **options: Any) -> ZoneAddress:
    """Return the endpoint's landing zone as settings would name it."""
    reached = StorageOptions(endpoint=endpoint.address, authority_file=str(trust.authority_file), credential=FixedToken)
    return ZoneAddress(endpoint.url, replace(reached, **options))


def adls_zone(endpoint: OneLake, trust: Trust, time: FakeTime, *, below: str = "", **options: Any) -> AdlsZone:
    """Return the endpoint's landing zone, or a folder below it, with simulated time."""
    at = onelake_address(endpoint, trust, **options)
    client = AdlsClient(StorageAddress.parse(at.location + below), at.options)
    return AdlsZone(client, time.retries(), block_bytes=at.options.block_bytes)
