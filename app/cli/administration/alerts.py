"""`mirrorgate alerts`: try the webhook that the API sends alerts to."""

from datetime import UTC, datetime

from app.cli.console import say
from app.errors import Code, Misconfigured
from app.extras import require_extras


def test() -> None:
    """Send a test message to the webhook of MIRRORGATE_ALERT_URL.

    Run it where the API runs, with its variables. Example: `MIRRORGATE_ALERT_URL=https://… mirrorgate alerts test`
    """
    require_extras("alerts test", "server")
    from app.api.alerting import Webhook
    from app.settings import Settings

    settings = Settings.from_environment()
    if settings.alert_url is None:
        raise Misconfigured(
            Code.BAD_SETTING,
            "MIRRORGATE_ALERT_URL is not set",
            remedy="Set it to the address of the webhook, for this command and for the API.",
        )
    now = datetime.now(UTC).isoformat()
    text = "TEST: this is a test message of Mirrorgate. Nothing is wrong."
    Webhook(settings.alert_url, settings.alert_secret).send(
        {"version": 1, "gateway": "", "sent_at": now, "text": text, "alerts": []}
    )
    say("the webhook took the message")
