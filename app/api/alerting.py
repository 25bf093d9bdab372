"""Alerts to a webhook, for gateways without Prometheus. One API process of the gateway sends them at a time.

A thread reads what Postgres knows, and the rules in `app.domain.health` decide what is wrong and what is due. What was
told is stored afterwards: an alert may be sent twice, and none is lost.
"""

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

import httpx
import msgspec
import structlog
from pydantic import SecretStr

from app.domain.health.facts import HealthFacts
from app.domain.health.troubles import AlertPlan, KnownAlert, Trouble, database_away, message_of, plan_alerts, troubles
from app.ingest import BacklogWatch
from app.observability.api_metrics import ALERTS, ALERTS_NOT_SENT
from app.observability.periodic_thread import PeriodicThread
from app.staging.connection.database import AdvisoryLock, Engine, installation_id, session_lock, translated_errors
from app.staging.overview import known_alerts, store_alerts, table_summaries
from app.staging.tables.status import gateway_facts
from mirrorgate.errors import Code, MirrorgateError, TemporarilyUnavailable

log = structlog.get_logger()

LOOK_SECONDS: Final = 10.0
SEND_SECONDS: Final = 10.0
"""Seconds that the receiver may take."""
GOOGLE_CHAT: Final = "chat.googleapis.com"
"""Its webhooks reject every member of a message but `text`, and long texts."""


class Webhook:
    """The receiver of alerts. Its address can have a secret, so no error names it."""

    def __init__(self, url: SecretStr, secret: SecretStr | None) -> None:
        self._url = url.get_secret_value()
        self._secret = secret.get_secret_value() if secret is not None else None
        self._is_google_chat = urlsplit(self._url).hostname == GOOGLE_CHAT

    def send(self, message: dict[str, object]) -> None:
        """POST a message. Raises TemporarilyUnavailable `alert_not_sent` for anything but an answer of 2xx."""
        if self._is_google_chat:
            message = {"text": str(message["text"])[:4_096]}
        body = msgspec.json.encode(message)
        headers = {"Content-Type": "application/json"}
        if self._secret is not None:
            headers["X-Signature"] = f"sha256={hmac.new(self._secret.encode(), body, hashlib.sha256).hexdigest()}"
        try:
            with httpx.stream("POST", self._url, content=body, headers=headers, timeout=SEND_SECONDS) as answer:
                failure = "" if answer.is_success else f"answered {answer.status_code}"  # its body is not read
        except httpx.HTTPError as error:
            failure = f"did not answer: {type(error).__name__}"
        if failure:
            raise TemporarilyUnavailable(Code.ALERT_NOT_SENT, f"the receiver of alerts {failure}")


@dataclass
class AlertWatch:
    """Watch for troubles. What it has sent is in Postgres; the process remembers only that Postgres is unreachable."""

    engine: Engine
    webhook: Webhook
    after_seconds: float
    backlog: BacklogWatch
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    gateway: str = ""
    """The installation's id, once Postgres has told it."""
    _away: Mapping[str, KnownAlert] = field(default_factory=dict)

    def thread(self) -> PeriodicThread:
        """Return the thread that checks."""
        return PeriodicThread("alert-watch", LOOK_SECONDS, self._try, waits_first=True)

    def look(self) -> None:
        """Look once, and tell what is due. A message that is not taken is sent again at the next look."""
        try:
            with translated_errors(), session_lock(self.engine, AdvisoryLock.ALERTS) as session:
                if session is not None:
                    self._look()
        except MirrorgateError as error:
            if error.code is Code.ALERT_NOT_SENT:
                raise
            self._tell_away([database_away()])
        else:
            self._tell_away([])

    def _look(self) -> None:
        with self.engine.begin() as connection:
            self.gateway = str(installation_id(connection))
            known = known_alerts(connection)
            facts = HealthFacts(
                gateway=gateway_facts(connection),
                tables=table_summaries(connection),
                shares=self.backlog.shares(),
                total_share=self.backlog.total_share(),
            )
        found = troubles(facts)
        plan = plan_alerts(known, found, self.clock(), after_seconds=self.after_seconds)
        self._store([*plan.begun, *plan.changed], plan.forgotten)
        if self._tell(plan):
            self._store(_told(plan.firing), [over.alert.key for over in plan.resolved])

    def _tell_away(self, found: Sequence[Trouble]) -> None:
        """Send that Postgres is unreachable, or back, from the memory of this process."""
        plan = plan_alerts(self._away, found, self.clock(), after_seconds=self.after_seconds)
        kept = {known.alert.key: known for known in (*self._away.values(), *plan.begun)} if found else {}
        if self._tell(plan):
            kept |= {known.alert.key: known for known in _told(plan.firing)}
        self._away = kept

    def _tell(self, plan: AlertPlan) -> bool:
        """Send what is due; return whether anything was. Raises TemporarilyUnavailable `alert_not_sent`."""
        if not plan.firing and not plan.resolved:
            return False
        self.webhook.send(message_of(plan, gateway=self.gateway, now=self.clock()))
        ALERTS.labels("firing").inc(len(plan.firing))
        ALERTS.labels("resolved").inc(len(plan.resolved))
        return True

    def _store(self, kept: Sequence[KnownAlert], forgotten: Sequence[str]) -> None:
        if kept or forgotten:
            with translated_errors(), self.engine.begin() as connection:
                store_alerts(connection, kept, forgotten)

    def _try(self) -> None:
        try:
            self.look()
        except MirrorgateError as error:
            ALERTS_NOT_SENT.inc()
            log.warning("alerts_not_sent", code=error.code, detail=error.detail)
        except Exception as error:  # noqa: BLE001  # alerts must continue after an unforeseen error; it is logged
            log.critical("alert_watch_failed", error=type(error).__name__)


def _told(firing: Sequence[KnownAlert]) -> list[KnownAlert]:
    return [replace(known, told_code=known.alert.code) for known in firing]
