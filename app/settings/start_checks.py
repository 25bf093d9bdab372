"""What must be right before the API listens: address, port, TLS files, tokens. Each rejection names the variable.

`mirrorgate up` checks all of it before it starts Postgres, and the API checks it again when it starts.
"""

import shutil
import socket
import ssl
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from app.domain.preflight.finding import Finding, Outcome
from app.domain.preflight.machine_findings import bytes_text, judge_memory
from app.errors import Code, Misconfigured
from app.settings import LOOPBACK, PREFIX, Settings

_TOKEN_PACKAGES: Final = ("jwt", "cryptography")


def check_serving(settings: Settings) -> None:
    """Raise Misconfigured for the first setting with which the API cannot serve safely. Asks no other machine."""
    settings.require_safe_listening()
    check_certificate(settings)
    check_tokens(settings)


def check_space(folders: Iterable[Path], least_free: int) -> None:
    """Raise Misconfigured `unsafe_setup` where one of these folders, which need not exist yet, has too little room."""
    for folder in folders:
        existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
        free = shutil.disk_usage(existing).free
        if free < least_free:
            raise Misconfigured(
                Code.UNSAFE_SETUP,
                f"{bytes_text(free)} are free in {folder}, less than {bytes_text(least_free)}",
                remedy=f"Make room there, or set {PREFIX}MIN_FREE_BYTES; 0 starts all the same.",
            )


def check_memory(settings: Settings, limit: int | None) -> Finding:
    """Judge the memory that an API process may use. Raise Misconfigured `unsafe_setup` where one body would end it, and
    MIRRORGATE_ALLOW_UNSAFE is not set."""
    finding = judge_memory(limit, settings.bytes_in_memory, settings.max_body_bytes)
    if finding.outcome is Outcome.UNSAFE and not settings.allow_unsafe:
        raise Misconfigured(Code.UNSAFE_SETUP, finding.detail, remedy=finding.remedy)
    return finding


def check_certificate(settings: Settings) -> None:
    """Raise Misconfigured `bad_setting` for a certificate and key that cannot be read or do not belong together."""
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
            f"{certificate} and {key} are no certificate and private key: {error}",
            remedy=f"Set {PREFIX}TLS_CERTIFICATE_FILE and {PREFIX}TLS_KEY_FILE to PEM files that belong together, the "
            "key without a passphrase.",
        ) from error


def _check_readable(name: str, file: Path) -> None:
    try:
        with file.open("rb") as opened:
            opened.read(1)
    except OSError as error:
        raise Misconfigured(
            Code.BAD_SETTING,
            f"{PREFIX}{name}: {file} cannot be read: {error.strerror}",
            remedy="Set it to a PEM file that this user may read.",
        ) from error


def check_tokens(settings: Settings) -> None:
    """Raise Misconfigured `bad_setting` for token settings that are incomplete, or whose packages are missing."""
    given = {
        f"{PREFIX}OIDC_ISSUER": settings.oidc_issuer,
        f"{PREFIX}OIDC_AUDIENCE": settings.oidc_audience,
        f"{PREFIX}OIDC_RIGHTS": settings.oidc_rights,
    }
    missing = [name for name, value in given.items() if not value]
    if len(missing) == len(given):
        return
    if missing:
        present = " and ".join(name for name in given if name not in missing)
        raise Misconfigured(
            Code.BAD_SETTING,
            f"{present} needs {' and '.join(missing)}",
            remedy="Set all three, as docs/security.md says, or none of them.",
        )
    if not is_safe_address(str(settings.oidc_issuer)):
        raise Misconfigured(
            Code.BAD_SETTING,
            f"{PREFIX}OIDC_ISSUER must be an https address",
            remedy="Set it to the issuer as `iss` names it, for example https://login.microsoftonline.com/<tenant>/v2.0.",
        )
    if not all(map(find_spec, _TOKEN_PACKAGES)):
        raise Misconfigured(
            Code.EXTRA_MISSING,
            f"{PREFIX}OIDC_ISSUER is set, and the packages that verify tokens are not installed",
            remedy="Install the extra `mirrorgate[oidc]`.",
        )


def is_safe_address(address: str) -> bool:
    """Return whether an answer from there cannot be changed on its way: https, or this machine."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK))


def free_port(host: str, port: int) -> int:
    """Return `port`, or any free one for 0. Raise Misconfigured `bad_setting` when it cannot be listened on."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise Misconfigured(
            Code.BAD_SETTING,
            f"{PREFIX}HOST: {host} is no address of this machine: {error.strerror}",
            remedy="Set it to 127.0.0.1, to another address of this machine, or to 0.0.0.0 for all of them.",
        ) from error
    try:
        with socket.socket(family, kind, protocol) as trial:
            # Connections that a stopped gateway left in TIME_WAIT do not keep the port; a listener does.
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(where)
            return int(trial.getsockname()[1])
    except OSError as error:
        raise Misconfigured(
            Code.BAD_SETTING,
            f"the gateway cannot listen on port {port} of {host}: {error.strerror}",
            remedy=f"Stop the program that uses it, or give another --port (or {PREFIX}PORT); 0 takes any free one.",
        ) from error
