"""Parses a Dockerfile into its stages. Only what the Dockerfile of this project uses is understood.

Invariant: parsing runs nothing. An instruction that is not known raises ValueError, so that no step is skipped.
"""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_KNOWN: Final = {
    "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "HEALTHCHECK", "LABEL", "RUN", "USER", "VOLUME", "WORKDIR",
}  # fmt: skip


@dataclass(frozen=True)
class Stage:
    """One stage: the image or stage that it is made from, and its own instructions in their order."""

    name: str
    base: str
    instructions: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ImageConfig:
    """An image's configuration of its containers."""

    environment: Mapping[str, str]
    command: tuple[str, ...]
    user: str = "root"
    folder: str = "/"
    labels: Mapping[str, str] | None = None
    health_check: tuple[str, ...] = ()


def read_stages(text: str, arguments: Mapping[str, str] | None = None) -> dict[str, Stage]:
    """Return the stages by name, in their order. `arguments` replace the defaults of the file's build arguments."""
    given = dict(arguments or {})
    stages: dict[str, Stage] = {}
    lines = re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    for line in filter(None, (line.strip() for line in lines)):
        instruction, _, rest = line.partition(" ")
        if found := re.fullmatch(r"FROM (\S+) AS (\S+)", line):
            current = found[2]
            stages[current] = Stage(current, substituted(found[1], given), ())
        elif instruction not in _KNOWN:
            raise ValueError(f"unknown instruction: {line}")
        elif not stages:
            name, _, default = rest.partition("=")
            given.setdefault(name, default)
        else:
            stage = stages[current]
            stages[current] = Stage(stage.name, stage.base, (*stage.instructions, (instruction, rest.strip())))
    return stages


def substituted(text: str, values: Mapping[str, str]) -> str:
    """Return the text with `$NAME` and `${NAME}` replaced; unset variables become empty."""
    return _VARIABLE.sub(lambda found: values.get(found[1] or found[2], ""), text)


def pairs(text: str, values: Mapping[str, str]) -> dict[str, str]:
    """Return the `name=value` pairs of an ENV or a LABEL, with variables replaced."""
    return dict(substituted(part, values).split("=", 1) for part in shlex.split(text))


def config_of(stages: Mapping[str, Stage], name: str, inherited: Mapping[str, str]) -> ImageConfig:
    """Return what the containers of a stage get, with what its parent stages say. `inherited`: the base image's ENV."""
    stage = stages[name]
    parent = config_of(stages, stage.base, inherited) if stage.base in stages else ImageConfig(inherited, ())
    environment, labels = dict(parent.environment), dict(parent.labels or {})
    arguments: dict[str, str] = {}
    entry, command, user, folder, health = (), parent.command, parent.user, parent.folder, parent.health_check
    for instruction, rest in stage.instructions:
        if instruction == "ARG":
            arguments |= {rest.partition("=")[0]: rest.partition("=")[2]}
        elif instruction == "ENV":
            environment |= pairs(rest, environment | arguments)
        elif instruction == "LABEL":
            labels |= pairs(rest, environment | arguments)
        elif instruction == "USER":
            user = rest
        elif instruction == "WORKDIR":
            folder = rest
        elif instruction == "HEALTHCHECK":
            health = tuple(json.loads(rest[rest.index("[") :]))
        elif instruction == "ENTRYPOINT":
            entry = tuple(json.loads(rest))
        elif instruction == "CMD":
            command = tuple(json.loads(rest))
    return ImageConfig(environment, (*entry, *command), user, folder, labels, health)
