"""Checks before the API listens: address, port, TLS files, tokens, memory, disk space.

`mirrorgate up` makes all of them before it starts Postgres, and the API repeats them when it starts. Each error names
the variable to correct. No check contacts another machine.
"""

import shutil
import socket
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from app.domain.preflight import Finding, Outcome, bytes_text, judge_memory
from app.settings import LOOPBACK, PREFIX, Settings
from mirrorgate.errors import Code, Misconfigured
from mirrorgate.errors.site import with_addresses

CALLBACK_PATH: Final = "/console/oidc/callback"
"""Path to which an identity provider sends browsers back."""


def check_serving(settings: Settings) -> None:
    """Raise Misconfigured for the first setting with which the API cannot serve safely."""
    settings.require_safe_listening()
    check_certificate(settings)
    check_tokens(settings)


def check_space(folders: Iterable[Path], min_free: int) -> None:
    """Raise Misconfigured `unsafe_setup` if a folder, which need not exist yet, has less free space than this."""
    for folder in folders:
        existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
        free = shutil.disk_usage(existing).free
        if free < min_free:
            raise Misconfigured(
                Code.UNSAFE_SETUP,
                f"{folder} has {bytes_text(free)} of free space, less than {bytes_text(min_free)}",
                remedy=f"Free space there, or lower {PREFIX}MIN_FREE_BYTES; 0 turns the check off.",
            )


def check_memory(settings: Settings, limit: int | None) -> Finding:
    """Judge the memory of an API process against the settings.

    Raise Misconfigured `unsafe_setup` if one body could exhaust it, unless MIRRORGATE_ALLOW_UNSAFE is set.
    """
    finding = judge_memory(limit, settings.bytes_in_memory, settings.max_body_bytes)
    if finding.outcome is Outcome.UNSAFE and not settings.allow_unsafe:
        raise Misconfigured(Code.UNSAFE_SETUP, finding.detail, remedy=finding.remedy)
    return finding


def check_certificate(settings: Settings) -> None:
    """Raise Misconfigured `bad_setting` if certificate and key cannot be read or do not match."""
    certificate, key = settings.tls_certificate_file, settings.tls_key_file
    if certificate is None or key is None:
        return
    _check_readable("TLS_CERTIFICATE_FILE", certificate)
    _check_readable("TLS_KEY_FILE", key)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:
        raise Misconfigured(
            Code.BAD_SETTING,
            f"{certificate} and {key} are not a certificate and its private key: {error}",
            remedy=f"Set {PREFIX}TLS_CERTIFICATE_FILE and {PREFIX}TLS_KEY_FILE to matching PEM files, the key "
            "without a passphrase.",
        ) from error


def _check_readable(name: str, file: Path) -> None:
    try:
        with file.open("rb") as opened:
            opened.read(1)
    except OSError as error:
        raise Misconfigured(
            Code.BAD_SETTING,
            f"{PREFIX}{name}: {file} cannot be read: {error.strerror}",
            remedy="Set it to a PEM file that this user can read.",
        ) from error


def check_tokens(settings: Settings) -> None:
    """Raise Misconfigured `bad_setting` for incomplete token settings."""
    given = {
        f"{PREFIX}OIDC_ISSUER": settings.oidc_issuer,
        f"{PREFIX}OIDC_AUDIENCE": settings.oidc_audience,
        f"{PREFIX}OIDC_RIGHTS": settings.oidc_rights,
    }
    _check_sign_in(settings)
    missing = [name for name, value in given.items() if not value]
    if len(missing) == len(given):
        return
    if missing:
        present = " and ".join(name for name in given if name not in missing)
        raise Misconfigured(
            Code.BAD_SETTING,
            f"{present} is set without {' and '.join(missing)}",
            remedy=with_addresses("Set all three variables, or none of them (docs/operate/sign-in.md)."),
        )
    if not is_safe_address(str(settings.oidc_issuer)):
        raise Misconfigured(
            Code.BAD_SETTING,
            f"{PREFIX}OIDC_ISSUER must be an https address",
            remedy="Set it to the issuer exactly as in `iss`, for example https://login.microsoftonline.com/<tenant>/v2.0.",
        )


def _check_sign_in(settings: Settings) -> None:
    """Raise Misconfigured `bad_setting` if people could not sign in to the console with what is set."""
    client, redirect, issuer = (f"{PREFIX}OIDC_{name}" for name in ("CLIENT_ID", "REDIRECT_URL", "ISSUER"))
    if settings.oidc_client_id is None:
        if settings.oidc_redirect_url is not None or settings.oidc_client_secret is not None:
            name = redirect if settings.oidc_redirect_url is not None else f"{PREFIX}OIDC_CLIENT_SECRET"
            raise _sign_in_error(f"{name} is set without {client}")
        return
    for name, value in ((issuer, settings.oidc_issuer), (redirect, settings.oidc_redirect_url)):
        if value is None:
            raise _sign_in_error(f"{client} is set without {name}")
    address = str(settings.oidc_redirect_url)
    if not is_safe_address(address) or urlsplit(address)[2:] != (CALLBACK_PATH, "", ""):
        raise _sign_in_error(f"{redirect} must be https://<this gateway>{CALLBACK_PATH}")


def _sign_in_error(detail: str) -> Misconfigured:
    remedy = with_addresses(
        "Set the issuer, the client id and the redirect URL (docs/operate/sign-in.md), or neither of the last two."
    )
    return Misconfigured(Code.BAD_SETTING, detail, remedy=remedy)


def is_safe_address(address: str) -> bool:
    """Return whether the address is https or on this machine, so that no one on the network can change an answer."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK))


def free_port(host: str, port: int) -> int:
    """Return `port`, or a free port for 0. Raise Misconfigured `bad_setting` if the API cannot listen on it."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise Misconfigured(
            Code.BAD_SETTING,
            f"{PREFIX}HOST: {host} is not an address of this machine: {error.strerror}",
            remedy="Set it to 127.0.0.1, to another address of this machine, or to 0.0.0.0 for all of them.",
        ) from error
    try:
        with socket.socket(family, kind, protocol) as trial:
            # Connections of a stopped gateway in TIME_WAIT must not block the port; a listener must.
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(where)
            return int(trial.getsockname()[1])
    except OSError as error:
        raise Misconfigured(
            Code.BAD_SETTING,
            f"the gateway cannot listen on port {port} of {host}: {error.strerror}",
            remedy=f"Stop the program that uses the port, or set another --port or {PREFIX}PORT; 0 chooses a free one.",
        ) from error
