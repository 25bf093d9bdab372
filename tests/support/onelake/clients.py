"""The real SDK pointed at the endpoint: production's addresses, sent to where the endpoint listens."""

import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from azure.core.credentials import AccessToken
from azure.storage.filedatalake import DataLakeServiceClient, FileSystemClient

from tests.support.onelake.endpoint import TOKEN, OneLake, Trust


@dataclass(frozen=True)
class FixedToken:
    """A credential that travels in a pickle; `text` is the token."""

    text: str = TOKEN

    def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        assert scopes == ("https://storage.azure.com/.default",), scopes
        return AccessToken(self.text, int(time.time()) + 3_600)


def file_system(endpoint: OneLake, trust: Trust, *, credential: Any = None, **options: Any) -> FileSystemClient:
    """The SDK's client of the endpoint's workspace, without retries of its own."""

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
