"""Look at the sources and the gateway without sending: what `--check` prints."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from app.bridge.objects.engine import producer_name
from app.bridge.objects.settings import ObjectsSettings, SourceSettings
from app.bridge.objects.store import ObjectStore, without_folders
from app.client.file_paths import TablePath, first_match
from app.client.http import GatewayClient
from app.client.producer import durable_number

MAX_LISTED: Final = 10_000
_METADATA: Final = ".dfm"


@dataclass
class SourceCheck:
    """What a source holds: objects by table, and an example of an object that belongs to none."""

    url: str
    tables: Counter[str] = field(default_factory=Counter)
    left_out: int = 0
    example: str | None = None
    is_partial: bool = False


def check_source(source: SourceSettings, store: ObjectStore) -> SourceCheck:
    """List a source. Raises Misconfigured `source_rejected` and TemporarilyUnavailable `source_unavailable`."""
    found = SourceCheck(store.url)
    listed = list(islice(store.objects(), MAX_LISTED + 1))
    found.is_partial = len(listed) > MAX_LISTED
    for item in without_folders(listed[:MAX_LISTED]):
        if item.key.endswith(_METADATA) or not source.names.holds_changes(item.key):
            continue
        path = first_match(source.table_from_path, item.key) if source.table_from_path else TablePath(source.table)
        if path is None:
            found.left_out += 1
            found.example = found.example or item.key
        else:
            found.tables[path.table or "(named by the messages)"] += 1
    return found


def check_gateway(settings: ObjectsSettings, client: GatewayClient) -> None:
    """Ask the gateway for a producer. Raises RejectedByGateway and TemporarilyUnavailable."""
    for source in settings.sources:
        durable_number(client, producer_name(settings.name, source.name, TablePath(source.table)))
