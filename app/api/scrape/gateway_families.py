"""Metrics of the gateway as a whole: its drains, the clocks that it compares, and the row images."""

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric

from app.api.scrape.facts import ScrapeFacts


def gateway_families(facts: ScrapeFacts) -> Iterable[Metric]:
    """Return the metrics of drains, clocks and row images."""
    drains = GaugeMetricFamily("mirrorgate_drain_workers", "Drains with a valid lease")
    waiting = GaugeMetricFamily(
        "mirrorgate_drain_workers_waiting", "Drains that publish nothing, by error code of the reason", labels=["code"]
    )
    clock = GaugeMetricFamily(
        "mirrorgate_clock_behind_seconds",
        "How far a clock is behind that of Postgres, negative if it is ahead: of this API process and of the drain "
        "that is furthest away",
        labels=["process"],
    )
    future = GaugeMetricFamily(
        "mirrorgate_future_batches", "Unpublished blocks from the future: the clock of Postgres was set back"
    )
    if (gateway := facts.gateway) is not None:
        drains.add_metric([], gateway.drains)
        if gateway.waits_for is not None:
            waiting.add_metric([gateway.waits_for], gateway.waiting_drains)
        clock.add_metric(["api"], gateway.clock_behind_seconds)
        clock.add_metric(["drain"], gateway.drain_clock_behind_seconds)
        future.add_metric([], gateway.future_batches)
    rows = GaugeMetricFamily("mirrorgate_row_images", "Row images of all tables, as estimated by Postgres")
    size = GaugeMetricFamily("mirrorgate_row_images_bytes", "Room that the row images of all tables take in Postgres")
    if facts.images is not None:
        rows.add_metric([], facts.images.rows)
        size.add_metric([], facts.images.bytes)
    return drains, waiting, clock, future, rows, size
