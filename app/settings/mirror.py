"""Settings of the Delta mirror: its target, its pace, and its metrics."""

import json
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, SecretStr, field_validator
from pydantic_settings import NoDecode

from app.errors import Code, Misconfigured


class MirrorSettings(BaseModel):
    """Where the mirror writes its Delta tables, and how often it looks for new landing files."""

    mirror_target: Annotated[
        str | None,
        Field(
            description="Where the mirror writes its Delta tables: a folder, which is created if it is missing, or an "
            "address that `deltalake` can write, such as `abfss://…` or `s3://…`. Unset: no mirror is configured.",
        ),
    ] = None
    mirror_storage_options: Annotated[
        dict[str, SecretStr],
        NoDecode,
        Field(
            description='Options of `deltalake` for the target, as JSON: `{"aws_region": "eu-west-1"}`. Variables '
            "of the cloud, such as `AWS_…` and `AZURE_…`, apply without it."
        ),
    ] = {}
    mirror_poll_seconds: Annotated[
        float | None,
        Field(
            gt=0,
            description="Time between two looks at the landing zone by the mirror, in seconds. Unset: 0.5 for a "
            "folder, 15 for OneLake and ADLS Gen2.",
        ),
    ] = None
    mirror_files_per_version: Annotated[
        int,
        Field(
            ge=1,
            description="Largest number of landing files that the mirror applies in one Delta version when it is "
            "behind. 1: every file has a version, which takes longer.",
        ),
    ] = 64
    mirror_metrics_port: Annotated[
        int | None,
        Field(
            ge=0,
            le=65535,
            description="Port where the mirror serves its own `/metrics`, on the address `MIRRORGATE_METRICS_HOST`. 0: "
            "any free port, which the log names. Unset: none.",
        ),
    ] = None

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
