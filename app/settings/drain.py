"""Settings of the drain: its lease, its Spark jobs, and what it reads from Fabric."""

import re
from typing import Annotated, Final

from pydantic import BaseModel, Field, field_validator

_SPARK_MASTER: Final = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|(spark|k8s)://.+|yarn")


class DrainSettings(BaseModel):
    """How a drain claims tables, builds files and follows Fabric."""

    lease_seconds: Annotated[
        float,
        Field(gt=0, description="A drain that has not renewed its lease for this many seconds loses its tables."),
    ] = 15.0
    spark_master: Annotated[
        str | None,
        Field(description="Spark master of the drain. Unset: the one that spark-submit sets, else `local[*]`."),
    ] = None
    drain_slots: Annotated[
        int | None,
        Field(
            ge=1,
            description="Number of worker slots: each builds and publishes a share of the tables, with one Spark job "
            "at a time. Unset: Spark's default parallelism, at most 32. The old name `MIRRORGATE_DRAIN_BINS` is "
            "accepted until 0.3.",
        ),
    ] = None
    spark_job_min_bytes: Annotated[
        int | None,
        Field(
            ge=0,
            description="The drain itself builds a few files whose staged payloads are smaller than this together, "
            "because that takes less time than a Spark job. 0: Spark builds all files. Unset: 33554432 (32 MiB) if "
            "Spark runs in the drain's process tree (`local[…]`), 262144 (256 KiB) on a cluster.",
        ),
    ] = None
    spark_stuck_seconds: Annotated[
        float,
        Field(
            ge=0,
            description="The drain exits, so that a supervisor restarts it, if a running Spark job makes no progress "
            "for this many seconds. 0: never; use it for a cluster that may be without executors for long.",
        ),
    ] = 300.0
    drain_metrics_port: Annotated[
        int | None,
        Field(
            ge=0,
            le=65535,
            description="Port where a drain serves its own `/metrics`, on the address `MIRRORGATE_METRICS_HOST`. 0: "
            "any free port, which the log names. Unset: none.",
        ),
    ] = None
    monitoring_seconds: Annotated[
        float,
        Field(
            ge=0,
            description="Minimum time between two reads of Fabric's replication status (`Monitoring/tables.json` "
            "beside the landing zone) by all drains together, in seconds. 0: never read it.",
        ),
    ] = 60.0
    drop_wait_seconds: Annotated[
        float,
        Field(
            ge=0,
            description="Maximum time to wait, after a dropped table's folder is deleted, until Fabric no longer lists "
            "the table, in seconds. It applies if Fabric's list is readable.",
        ),
    ] = 600.0

    @field_validator("spark_master")
    @classmethod
    def _a_master(cls, value: str | None) -> str | None:
        if value and not _SPARK_MASTER.fullmatch(value):
            raise ValueError("must be local[*], spark://host:port, k8s://…, or yarn")
        return value
