"""Settings of the API: its server, one request, one API process, and the backlog.

`ApiSettings` has address, TLS and processes. `RequestLimits` and `BacklogLimits` limit one request, one API process and
the backlog. docs/reference/limits.md says what happens beyond each.
"""

from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, Field, ValidationInfo, field_validator

from mirrorgate.errors import Code, Misconfigured


class RequestLimits(BaseModel, use_attribute_docstrings=True):
    """Limits of one request, and of all requests that one API process works on."""

    max_body_bytes: Annotated[int, Field(ge=1024)] = 64 * 2**20
    """Maximum size of a request body in bytes, compressed and decompressed."""
    max_expansion: Annotated[int, Field(ge=2)] = 200
    """Maximum ratio of a body's decompressed size to its compressed size. It applies to bodies over 1 MiB."""
    max_request_messages: Annotated[int, Field(ge=1)] = 500_000
    """Maximum number of messages, CSV records or rows in one request."""
    max_value_bytes: Annotated[int, Field(ge=1)] = 16 * 2**20
    """Maximum length of one string or JSON value, in bytes of UTF-8."""
    body_seconds: Annotated[float, Field(gt=0)] = 300.0
    """Maximum time for a request body to arrive, and for an answer to be read, in seconds."""
    body_grace_seconds: Annotated[float, Field(gt=0)] = 10.0
    """Time before `MIRRORGATE_MIN_BODY_RATE` applies to a body or an answer, in seconds."""
    min_body_rate: Annotated[int, Field(ge=1)] = 1024
    """Minimum rate at which a body must arrive and an answer be read, in bytes per second, after
    `MIRRORGATE_BODY_GRACE_SECONDS`."""
    max_concurrent_requests: Annotated[int, Field(ge=1)] = 1_000
    """Maximum number of change requests that an API process works on at a time, and, counted apart, of bodies that have
    not arrived completely."""
    max_bytes_in_memory: Annotated[int | None, Field(ge=1024)] = None
    """Memory budget of an API process for request bodies, as sent and decompressed, in bytes. Answers that were not
    read have a quarter of it besides. Unset: four times `MIRRORGATE_MAX_BODY_BYTES`, at least 64 MiB."""
    max_key_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of `MIRRORGATE_MAX_CONCURRENT_REQUESTS` and `MIRRORGATE_MAX_BYTES_IN_MEMORY` that one key can hold if it is
    the only busy one. With 0.5 it can hold as much as remains free."""
    max_large_bodies_bytes: Annotated[int, Field(ge=1)] = 32 * 2**20
    """Bytes of bodies over 1 MiB that an API process reads and processes at a time. One such body always fits; the
    others wait unread."""

    @field_validator("max_bytes_in_memory")
    @classmethod
    def _fits_one_body(cls, value: int | None, others: ValidationInfo) -> int | None:
        # A compressed body and its decompressed form must fit together, or the body would be rejected every time.
        if value is not None and value < 2 * others.data.get("max_body_bytes", 0):
            raise ValueError("must be at least twice MIRRORGATE_MAX_BODY_BYTES")
        return value

    @property
    def bytes_in_memory(self) -> int:
        """`max_bytes_in_memory`, or its default for the largest body."""
        return self.max_bytes_in_memory or max(4 * self.max_body_bytes, 64 * 2**20)


class BacklogLimits(BaseModel, use_attribute_docstrings=True):
    """Limits of what is accepted and not published. Beyond them, the API answers 429."""

    max_backlog_bytes: Annotated[int, Field(ge=1)] = 16 * 2**30
    """Maximum payload bytes of one table that are accepted and not published."""
    max_backlog_rows: Annotated[int | None, Field(ge=1)] = None
    """Maximum rows of one table that are accepted and not published. Unset: no limit."""
    max_backlog_seconds: Annotated[float | None, Field(gt=0)] = None
    """Maximum age of a table's oldest unpublished batch, in seconds. Unset: no limit."""
    max_total_backlog_bytes: Annotated[int, Field(ge=1)] = 128 * 2**30
    """Maximum payload bytes of all tables that are accepted and not published."""
    max_total_backlog_rows: Annotated[int | None, Field(ge=1)] = None
    """Maximum rows of all tables that are accepted and not published. Unset: no limit."""


LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
"""Hosts that only this machine reaches."""


class ApiSettings(BaseModel, use_attribute_docstrings=True):
    """Address, protection and number of API processes."""

    host: str = "127.0.0.1"
    """Address that the API listens on."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8480
    """Port that the API listens on."""
    tls_certificate_file: Path | None = None
    """PEM file with the API's certificate and its chain. If it is set, the API serves HTTPS."""
    tls_key_file: Path | None = None
    """PEM file with the certificate's private key."""
    behind_tls_proxy: bool = False
    """Set it if the API is reachable only through a proxy that terminates TLS. The API may then listen beyond this
    machine without a certificate."""
    forwarded_allow_ips: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """With `MIRRORGATE_BEHIND_TLS_PROXY`: addresses or networks of trusted proxies, separated by commas. The API uses
    their `X-Forwarded-*` headers."""
    console: bool = True
    """`true`: the API serves the console at `/console`, and `/` redirects to it."""
    api_processes: Annotated[int, Field(ge=1, le=64)] = 1
    """Number of API processes that share the port."""
    shutdown_seconds: Annotated[int, Field(ge=1)] = 10
    """Maximum time that an API process waits for running requests after SIGTERM, in seconds. Then it answers them with
    `commit_unknown` and exits."""

    @field_validator("forwarded_allow_ips")
    @classmethod
    def _networks(cls, value: str) -> str:
        for entry in map(str.strip, value.split(",")):
            try:
                if entry != "*":
                    ip_network(entry)
            except ValueError:
                raise ValueError(f"{entry!r} is neither an IP address nor a network such as 10.1.0.0/16") from None
        return value

    @field_validator("port", mode="before")
    @classmethod
    def _not_a_service_link(cls, value: object) -> object:
        # Kubernetes sets MIRRORGATE_PORT=tcp://… in pods beside a service named `mirrorgate`.
        return cls.model_fields["port"].default if isinstance(value, str) and value.startswith("tcp://") else value

    def require_safe_listening(self) -> None:
        """Raise Misconfigured `public_without_tls`, or `bad_setting` for a certificate without its key."""
        if (self.tls_certificate_file is None) != (self.tls_key_file is None):
            raise Misconfigured(
                Code.BAD_SETTING,
                "MIRRORGATE_TLS_CERTIFICATE_FILE and MIRRORGATE_TLS_KEY_FILE must be set together",
                remedy="Set both variables, or neither.",
            )
        if self.host not in LOOPBACK and self.tls_certificate_file is None and not self.behind_tls_proxy:
            raise Misconfigured(Code.PUBLIC_WITHOUT_TLS, f"the API would listen on {self.host} without TLS")
