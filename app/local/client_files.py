"""Files in the data directory: the gateway's URL and the admin key, which client commands read, and the signing key."""

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from app.domain.access.api_key import ApiKey, format_key
from app.errors import Code, Misconfigured, RejectedInput
from app.settings import Settings

SIGNING_KEY_FILE: Final = "signing.key"


def admin_key(settings: Settings, file: Path) -> str:
    """Return the key from the settings, else the one in `file`, which the first start creates.

    After a crash here, the file is absent or holds the complete key.
    """
    if settings.admin_key is not None:
        return settings.admin_key.get_secret_value()
    if not file.exists():
        _write_private(file, format_key(secrets.token_hex(4), secrets.token_urlsafe(32)) + "\n")
    key = file.read_text().strip()
    try:
        ApiKey.parse(key)
    except RejectedInput:
        raise Misconfigured(
            Code.BAD_SETTING, f"{file} does not hold an API key", remedy="Delete it; the next start creates a new one."
        ) from None
    return key


def signing_key(settings: Settings, file: Path) -> str:
    """Return the signing key from the settings, else the one in `file`, which the first start creates."""
    if settings.signing_key is not None:
        return settings.signing_key.get_secret_value()
    if not file.exists():
        _write_private(file, secrets.token_urlsafe(32) + "\n")
    return file.read_text().strip()


@contextmanager
def gateway_file(file: Path, url: str, certificate: Path | None = None) -> Iterator[None]:
    """Write the gateway's URL, pid and certificate to `file` for client commands; remove the file after the block.

    After a crash, the file stays until the next start and names a pid that is gone.
    """
    shown = {} if certificate is None else {"certificate": str(certificate)}
    _write_private(file, json.dumps({"url": url, "pid": os.getpid(), **shown}) + "\n")
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def _write_private(file: Path, text: str) -> None:
    """Replace `file` atomically and durably, readable by this user only."""
    new = file.with_name(f"{file.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    new.replace(file)
