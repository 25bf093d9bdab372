"""Sends a message of alerts to the webhook."""

import hashlib
import hmac

import httpx
import msgspec
from pydantic import SecretStr

from app.errors import Code, TemporarilyUnavailable

SEND_SECONDS = 10.0
"""How long the receiver may take."""


class Webhook:
    """The receiver of alerts. Its address can have a secret, so no error names it."""

    def __init__(self, url: SecretStr, secret: SecretStr | None) -> None:
        self._url = url.get_secret_value()
        self._secret = secret.get_secret_value() if secret is not None else None

    def send(self, message: dict[str, object]) -> None:
        """POST a message. Raises TemporarilyUnavailable `alert_not_sent` for anything but an answer of 2xx."""
        body = msgspec.json.encode(message)
        headers = {"Content-Type": "application/json"}
        if self._secret is not None:
            headers["X-Signature"] = f"sha256={hmac.new(self._secret.encode(), body, hashlib.sha256).hexdigest()}"
        try:
            with httpx.stream("POST", self._url, content=body, headers=headers, timeout=SEND_SECONDS) as answer:
                pass  # the status is the whole answer; its body is not read
        except httpx.HTTPError as error:
            detail = f"the receiver of alerts did not answer: {type(error).__name__}"
            raise TemporarilyUnavailable(Code.ALERT_NOT_SENT, detail) from None
        if not answer.is_success:
            detail = f"the receiver of alerts answered {answer.status_code}"
            raise TemporarilyUnavailable(Code.ALERT_NOT_SENT, detail)
