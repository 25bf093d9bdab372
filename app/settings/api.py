"""Settings of the API server: address, TLS and processes."""

from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, Field, field_validator

from app.errors import Code, Misconfigured

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
"""Hosts that only this machine reaches."""


class ApiSettings(BaseModel):
    """Where the API listens, how it is protected, and how many processes serve it."""

    host: Annotated[str, Field(description="Address that the API listens on.")] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535, description="Port that the API listens on.")] = 8480
    tls_certificate_file: Annotated[
        Path | None,
        Field(description="PEM file with the API's certificate and its chain. If it is set, the API serves HTTPS."),
    ] = None
    tls_key_file: Annotated[Path | None, Field(description="PEM file with the certificate's private key.")] = None
    behind_tls_proxy: Annotated[
        bool,
        Field(
            description="Set it if the API is reachable only through a proxy that terminates TLS. The API may then "
            "listen beyond this machine without a certificate."
        ),
    ] = False
    forwarded_allow_ips: Annotated[
        str,
        Field(
            min_length=1,
            description="With `MIRRORGATE_BEHIND_TLS_PROXY`: addresses or networks of trusted proxies, separated by "
            "commas. The API uses their `X-Forwarded-*` headers.",
        ),
    ] = "127.0.0.1"
    console: Annotated[
        bool, Field(description="Whether the API serves the console at `/console`, and `/` redirects to it.")
    ] = True
    api_processes: Annotated[int, Field(ge=1, le=64, description="Number of API processes that share the port.")] = 1
    shutdown_seconds: Annotated[
        int,
        Field(
            ge=1,
            description="Maximum time that an API process waits for running requests after SIGTERM, in seconds. Then "
            "it answers them with `commit_unknown` and exits.",
        ),
    ] = 10

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
