"""Freshness: time from the POST of a change until it is visible, at 100 changes/s, compared with an empty Spark job."""

import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import httpx

from benchmarks.bench import Bench
from benchmarks.gateway import Api, Gateway
from benchmarks.limits.empty_job import empty_jobs
from benchmarks.loads.driver import percentile
from benchmarks.loads.workloads import Workload, find_workload
from benchmarks.reports.figure import BenchmarkFailed, Figure, Goal, Measured

PER_SECOND: Final = 100
JOBS: Final = 30

SELECT_VISIBLE = """
    SELECT b.sequence, extract(epoch FROM f.published_at)::float8
    FROM unnest(CAST(:sequences AS bigint[])) b(sequence)
    JOIN mirrorgate.landing_files f ON b.sequence BETWEEN f.first_sequence AND f.last_sequence"""
"""When the file of each batch of the only table was recorded, which is after it became visible."""


def measure(bench: Bench) -> list[Figure]:
    """Send changes at an even rate, whether earlier ones are answered or not; run the empty jobs in between."""
    workload = find_workload("small-1")
    seen, jobs, late = [], [], []
    with bench.gateway() as gateway:
        gateway.start_drain(max_delay_seconds=0)
        api = gateway.start_api()
        api.prepare(workload)
        bench.show_status("freshness, starting Spark for empty jobs")
        with empty_jobs(gateway.folder, dict(os.environ)) as spark:
            bench.show_status("freshness, warming up")
            ages(gateway, api, workload, bench.seconds / 2)
            for _ in bench.each_run("freshness"):
                jobs.append(spark.median_seconds(JOBS) * 1e3)
                found = sorted(ages(gateway, api, workload, bench.seconds))
                seen.append(statistics.median(found) * 1e3)
                late.append(percentile(found, 0.99) * 1e3)
    return [
        Figure(
            "freshness",
            f"Freshness: POST to visible at {PER_SECOND} changes/s, median",
            "ms",
            Measured.of(seen),
            Measured.of(jobs),
            "an empty Spark job of the same kind",
            Goal(3.0, at_least=False),
            {"99 %": f"{statistics.median(late):.0f} ms"},
        )
    ]


def ages(gateway: Gateway, api: Api, workload: Workload, seconds: float) -> list[float]:
    """Return the seconds from when each change was due to be sent until it was recorded as visible."""
    bodies = workload.bodies()[: max(1, round(seconds * PER_SECOND))]
    headers = {"Authorization": f"Bearer {gateway.key}", "Content-Type": "application/json"}
    with httpx.Client(base_url=api.url, headers=headers, timeout=60.0) as http, ThreadPoolExecutor(32) as threads:

        def post(body: bytes) -> int:
            answer = http.post("/v1/changes/arcion", content=body).raise_for_status()
            return int(answer.json()["receipts"][0]["sequence"])

        due, answers = [], []
        first = time.time()
        for number, body in enumerate(bodies):
            due.append(first + number / PER_SECOND)
            time.sleep(max(0.0, due[-1] - time.time()))
            answers.append(threads.submit(post, body))
        sequences = [answer.result() for answer in answers]
    gateway.wait_published()
    visible = dict(gateway.rows(SELECT_VISIBLE, sequences=sequences))
    if len(visible) != len(sequences):
        raise BenchmarkFailed(f"{len(sequences) - len(visible)} changes are not in any published file")
    return [visible[sequence] - sent for sequence, sent in zip(sequences, due, strict=True)]
