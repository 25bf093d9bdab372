"""`mirrorgate bridge kafka`: post the records of Kafka topics to a gateway, each exactly once."""

import os
from pathlib import Path
from typing import Annotated

import typer

from app.extras import require_extras
from mirrorgate.cli.console import say


def kafka(
    config: Annotated[Path, typer.Option("--config", "-c", help="The YAML file of the bridge.", show_default=False)],
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Check the file, then ask the gateway and the brokers for topics, tables and rights, and exit. "
            "Nothing is consumed or sent.",
        ),
    ] = False,
    skip: Annotated[
        list[str] | None,
        typer.Option(
            "--skip",
            metavar="TOPIC/PARTITION@OFFSET",
            help="Leave out this one record, for example one that stopped its partition. Repeatable.",
        ),
    ] = None,
    start: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="TOPIC/PARTITION@OFFSET",
            help="Start of a partition whose log no longer has the position, for example of a recreated topic: an "
            "offset, `earliest` or `latest`; `*` is every partition. Has no effect on any other partition.",
        ),
    ] = None,
) -> None:
    """Post the records of Kafka topics to the gateway, each exactly once and in order. Requires the extra `kafka`.

    The gateway keeps the position of each partition in the transaction of its data. So a killed bridge, a rebalance or
    a lost answer neither loses nor repeats a record. Run several bridges with one group to share the partitions. Stop
    with Ctrl-C or SIGTERM: requests in flight are finished.

    A record that the gateway rejects stops its partition; the log and `/readyz` say which one, why and what to do.

    https://mirrorgate.github.io/mirrorgate/send/kafka/ explains the file of the bridge, with an example.

    For example:

        mirrorgate bridge kafka --config bridge.yaml --check
        mirrorgate bridge kafka --config bridge.yaml
    """
    require_extras("bridge kafka", "kafka")
    from app.bridge.kafka.check import check_connections
    from app.bridge.kafka.cluster import check_librdkafka
    from app.bridge.kafka.partition.positions import Choices
    from app.bridge.kafka.service import serve
    from app.bridge.kafka.settings import read_settings

    choices = Choices.parse(skip or (), start or ())
    settings = read_settings(config, os.environ)
    check_librdkafka(settings)
    if not check:
        serve(settings, choices)
        return
    say(f"{config}: no error found")
    findings = [*check_connections(settings)]
    for finding in findings:
        say(f"{'ok   ' if finding.is_good else 'error'} {finding.text}", None if finding.is_good else "red")
        if finding.remedy:
            say(f"      remedy: {finding.remedy}")
    if not all(finding.is_good for finding in findings):
        raise typer.Exit(1)
