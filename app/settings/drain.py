"""Settings of the drain: its lease, its Spark jobs, and what it reads from Fabric.

Settings of the Delta mirror: its target, its pace, and its metrics.
"""

import json
import re
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, Field, SecretStr, field_validator
from pydantic_settings import NoDecode

from app.errors import Code, Misconfigured


class MirrorSettings(BaseModel, use_attribute_docstrings=True):
    """Where the mirror writes its Delta tables, and how often it looks for new landing files."""

    mirror_target: str | None = None
    """Where the mirror writes its Delta tables: a folder, which is created if it is missing, or an address that
    `deltalake` can write, such as `abfss://…` or `s3://…`. Unset: no mirror is configured."""
    mirror_storage_options: Annotated[dict[str, SecretStr], NoDecode] = {}
    """Options of `deltalake` for the target, as JSON: `{"aws_region": "eu-west-1"}`. Variables of the cloud, such as
    `AWS_…` and `AZURE_…`, apply without it."""
    mirror_poll_seconds: Annotated[float | None, Field(gt=0)] = None
    """Time between two looks at the landing zone by the mirror, in seconds. Unset: 0.5 for a folder, 15 for OneLake and
    ADLS Gen2."""
    mirror_files_per_version: Annotated[int, Field(ge=1)] = 64
    """Largest number of landing files that the mirror applies in one Delta version when it is behind. 1: every file has
    a version, which takes longer."""
    mirror_metrics_port: Annotated[int | None, Field(ge=0, le=65535)] = None
    """Port where the mirror serves its own `/metrics`, on the address `MIRRORGATE_METRICS_HOST`. 0: any free port,
    which the log names. Unset: none."""

    @field_validator("mirror_storage_options", mode="before")
    @classmethod
    def _options_object(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value or "{}")
        except json.JSONDecodeError:
            raise ValueError('must be a JSON object such as {"aws_region": "eu-west-1"}') from None

    @property
    def mirror_options(self) -> dict[str, str]:
        """`mirror_storage_options` in clear text, as `deltalake` takes them."""
        return {name: value.get_secret_value() for name, value in self.mirror_storage_options.items()}

    def require_mirror_target(self) -> str:
        """Return the target's address, or its absolute folder. Raise Misconfigured `bad_setting` if unset."""
        if not self.mirror_target:
            raise Misconfigured(
                Code.BAD_SETTING,
                "MIRRORGATE_MIRROR_TARGET is not set",
                remedy="Set it to the folder or address of the Delta tables, or give --to.",
            )
        return self.mirror_target if "://" in self.mirror_target else str(Path(self.mirror_target).absolute())


_SPARK_MASTER: Final = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|(spark|k8s)://.+|yarn")


class DrainSettings(BaseModel, use_attribute_docstrings=True):
    """How a drain claims tables, builds files and follows Fabric."""

    lease_seconds: Annotated[float, Field(gt=0)] = 15.0
    """A drain that has not renewed its lease for this many seconds loses its tables."""
    spark_master: str | None = None
    """Spark master of the drain. Unset: the one that spark-submit sets, else `local[*]`."""
    drain_slots: Annotated[int | None, Field(ge=1)] = None
    """Number of worker slots: each builds and publishes a share of the tables, with one Spark job at a time. Unset:
    Spark's default parallelism, at most 32."""
    spark_job_min_bytes: Annotated[int | None, Field(ge=0)] = None
    """The drain itself builds a few files whose staged payloads are smaller than this together, because that takes less
    time than a Spark job. 0: Spark builds all files. Unset: 33554432 (32 MiB) if Spark runs in the drain's process tree
    (`local[…]`), 262144 (256 KiB) on a cluster."""
    spark_stuck_seconds: Annotated[float, Field(ge=0)] = 300.0
    """The drain exits, so that a supervisor restarts it, if a running Spark job makes no progress for this many
    seconds. 0: never; use it for a cluster that may be without executors for long."""
    drain_metrics_port: Annotated[int | None, Field(ge=0, le=65535)] = None
    """Port where a drain serves its own `/metrics`, on the address `MIRRORGATE_METRICS_HOST`. 0: any free port, which
    the log names. Unset: none."""
    monitoring_seconds: Annotated[float, Field(ge=0)] = 60.0
    """Minimum time between two reads of Fabric's replication status (`Monitoring/tables.json` beside the landing zone)
    by all drains together, in seconds. 0: never read it."""
    drop_wait_seconds: Annotated[float, Field(ge=0)] = 600.0
    """Maximum time to wait, after a dropped table's folder is deleted, until Fabric no longer lists the table, in
    seconds. It applies if Fabric's list is readable."""

    @field_validator("spark_master")
    @classmethod
    def _a_master(cls, value: str | None) -> str | None:
        if value and not _SPARK_MASTER.fullmatch(value):
            raise ValueError("must be local[*], spark://host:port, k8s://…, or yarn")
        return value
