"""What the partitions share to send records: the client of the gateway, the registry, and the decoders."""

import threading
from typing import Any

from app.bridge.kafka.records import RecordDecoder
from app.bridge.kafka.registered_records import decoder_of
from app.bridge.kafka.registry import SchemaRegistry
from app.bridge.kafka.settings import RegistrySettings
from app.bridge.kafka.topics import TopicRule
from app.bridge.settings_file import GatewaySettings
from app.client.http import GatewayClient


class Gateway(GatewayClient):
    """A gateway client that sends at most `requests` requests at a time, apart from those that wait for a retry."""

    def __init__(self, settings: GatewaySettings) -> None:
        super().__init__(settings.url, settings.key, settings.certificate)
        self._places = threading.BoundedSemaphore(settings.requests)

    def _answered(self, method: str, path: str, **arguments: Any) -> Any:
        with self._places:
            return super()._answered(method, path, **arguments)


def registry_of(settings: RegistrySettings | None) -> SchemaRegistry | None:
    """Open a client of the schema registry, None without one."""
    if settings is None:
        return None
    return SchemaRegistry(
        settings.url,
        username=settings.username,
        password=settings.password,
        certificate=settings.certificate,
        timeout=settings.timeout,
    )


class Decoders:
    """The decoder of each rule, with one registry for all."""

    def __init__(self, settings: RegistrySettings | None) -> None:
        self._registry = registry_of(settings)
        self._found: dict[str, RecordDecoder] = {}

    def of(self, rule: TopicRule) -> RecordDecoder:
        """Return the decoder of a rule."""
        name = f"{rule.topic is None}{rule.name}"
        if name not in self._found:
            has_table = rule.table is not None
            self._found[name] = decoder_of(rule.format, rule.value, rule.key, self._registry, has_table=has_table)
        return self._found[name]
