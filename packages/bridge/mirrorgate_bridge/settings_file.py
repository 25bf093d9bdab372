"""The YAML file of a bridge: values of the environment, sizes and durations, and every problem at once.

The sections are pydantic models. Their problems are reported together, each with its line, its path in the file, and
what to write instead, so a file with five mistakes is corrected in one round. Invariant: reading a file connects to
nothing, and no error repeats a key or a password.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from app.yaml_text import Findings, YamlValue, did_you_mean, read_yaml
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.http import GatewayClient

DEFAULT_HEALTH_PORT: Final = 9480
MAX_REQUESTS_AT_A_TIME: Final = 64
_VARIABLE: Final = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_SIZE: Final = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB)?")
_UNITS: Final = {None: 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")
_SECONDS: Final = {None: 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NAME: Final = re.compile(r"[!-.0-~]{1,100}")
_SHAPES: Final = {
    "string_type": ("is not one value", "Write a single value here."),
    "tuple_type": ("is not a list", "Write a list: [a, b], or one `- ` line for each."),
    "dict_type": ("is not a mapping", "Write `key: value`, one per line."),
    "model_type": ("is not a mapping", "Write `key: value`, one per line."),
}

Place = tuple[int | str, ...]
Problem = tuple[Place, PydanticCustomError]


def wrong(detail: str, remedy: str) -> PydanticCustomError:
    """Return the error of a value: what is wrong, and what to write instead."""
    return PydanticCustomError("setting", "{detail}", {"detail": detail, "remedy": remedy})


class Section(BaseModel):
    """A mapping of the file. Immutable; unknown keys are problems."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True, use_attribute_docstrings=True)

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[Problem]:
        """Yield what contradicts another value, with its place in the section. Values are as written, or wrong."""
        yield from ()

    @model_validator(mode="wrap")
    @classmethod
    def _all_problems(cls, given: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        problems: list[InitErrorDetails] = []
        made: Self | None = None
        try:
            made = validate(given)
        except ValidationError as error:
            for one in error.errors(include_url=False):
                kind, context = one["type"], one.get("ctx", {})
                is_own = kind == "setting"
                problems.append(
                    InitErrorDetails(
                        type=PydanticCustomError("setting", "{detail}", context) if is_own else kind,
                        loc=one["loc"],
                        input=one["input"],
                        ctx=context,
                    )
                )
        if isinstance(given, dict):
            unknown = [
                ((name,), wrong("unknown key", did_you_mean(name, cls.model_fields)))
                for name in given
                if name not in cls.model_fields
            ]
            found = [*unknown, *cls.contradictions(given)]
            problems += [InitErrorDetails(type=error, loc=place, input=None) for place, error in found]
        if made is None or problems:
            raise ValidationError.from_exception_data(cls.__name__, problems)
        return made


AnySection = TypeVar("AnySection", bound=Section)


def read_settings_file(path: Path, environment: Mapping[str, str], model: type[AnySection]) -> AnySection:
    """Return the settings of a file, with `${NAME}` and `${NAME:-default}` replaced in its values; `$$` is a `$`.

    Raises RejectedInput `bad_request` for a file that cannot be read, and BadFile with every problem.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise RejectedInput(
            Code.BAD_REQUEST, f"{path} cannot be read: {reason}", remedy="Give the path of the bridge's YAML file."
        ) from None
    findings = Findings(path.name)
    root = read_yaml(text, findings, if_empty="Start from the example in the documentation of the bridge.")
    content = root.content(lambda entry: _with_variables(entry, environment))
    try:
        made = model.model_validate(content)
    except ValidationError as error:
        named = YamlValue(root.node, "", Findings(path.name), root.line)  # its lookups note duplicate keys again
        for one in error.errors(include_url=False):
            place, detail, remedy = _explained(one["type"], one["loc"], one["msg"], one["input"], one.get("ctx", {}))
            findings.found.append(named.below([str(part) for part in place]).wrong(Code.BAD_SETTING, detail, remedy))
        findings.check()
        raise
    findings.check()
    return made


def _with_variables(entry: YamlValue, environment: Mapping[str, str]) -> str:
    """Return a string of the file with its variables replaced; one that is not set is noted."""

    def value_of(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        if name is None:
            return "$"
        if name in environment:
            return environment[name]
        if default is None:
            remedy = f"Set {name}, or write ${{{name}:-default}}."
            unset = entry.wrong(Code.BAD_SETTING, f"the environment variable {name} is not set", remedy)
            entry.findings.found.append(unset)
        return "unset" if default is None else str(default)

    return _VARIABLE.sub(value_of, entry.text())


def _explained(kind: str, place: Place, message: str, given: Any, context: Mapping[str, Any]) -> tuple[Place, str, str]:
    """Return the place, the detail and the remedy of a problem that pydantic has found."""
    place = place[:-1] if place[-1:] == ("[key]",) else place
    match kind:
        case "setting":
            return place, context["detail"], context["remedy"]
        case "missing":
            return place[:-1], f"{place[-1]!r} is missing", f"Add `{place[-1]}:`."
        case "literal_error" | "enum":
            choices = re.findall(r"'([^']*)'", context["expected"])
            return place, f"{given!r} is not a valid value", did_you_mean(str(given), choices)
        case _:
            detail, remedy = _SHAPES.get(kind, (message, "Compare it with the documentation of the bridge."))
            return place, detail, remedy


def size(least: int, most: int) -> BeforeValidator:
    """Return the reader of a size such as `4 MiB`, in bytes."""

    def read(text: str) -> int:
        found = _SIZE.fullmatch(text)
        if found is None:
            raise wrong(f"{text!r} is not a size", "Write for example 4 MiB or 65536.")
        return int(found[1]) * _UNITS[found[2]]

    return _number(read, least, most, "bytes")


def seconds(least: float, most: float) -> BeforeValidator:
    """Return the reader of a duration such as `500 ms`, in seconds."""

    def read(text: str) -> float:
        found = _DURATION.fullmatch(text)
        if found is None:
            raise wrong(f"{text!r} is not a duration", "Write for example 500 ms, 2 s or 5 m.")
        return float(found[1]) * _SECONDS[found[2]]

    return _number(read, least, most, "seconds")


def whole_number(least: int, most: int) -> BeforeValidator:
    """Return the reader of a whole number."""

    def read(text: str) -> int:
        if not re.fullmatch(r"\d{1,18}", text):
            raise wrong(f"{text!r} is not a whole number", "Write digits only.")
        return int(text)

    return _number(read, least, most, "")


def _number(read: Callable[[str], float], least: float, most: float, unit: str) -> BeforeValidator:
    def checked(written: Any) -> Any:
        if not isinstance(written, str):
            return written  # a value of the program, or what is not a single value
        value = read(written)
        if not least <= value <= most:
            bounds = f"between {least:,} and {most:,} {unit}".strip()
            raise wrong(f"{written!r} is out of range", f"Write a value {bounds}.")
        return value

    return BeforeValidator(checked)


def own_names(remedies: Mapping[str, str]) -> AfterValidator:
    """Return the check of keys that the bridge sets itself; `remedies` says where to write them instead."""

    def checked(name: str) -> str:
        if name in remedies:
            raise wrong("is set by the bridge", remedies[name])
        return name

    return AfterValidator(checked)


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise wrong("is not a name", "Use up to 100 visible ASCII characters without blanks and slashes.")
    return text


def _url(text: str) -> str:
    url = text.rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise wrong("is not an address", "Write https://host, or http://127.0.0.1:8480.")
    if parts.username or parts.query or parts.fragment:
        raise wrong("has more than scheme, host, port and path", "Give the API key as `key`, not in the URL.")
    return url


def _key(text: str) -> str:
    key = text.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise wrong("is not an API key", "Write `key: ${MIRRORGATE_API_KEY}` and set it.")
    return key


def _file(path: Path) -> Path:
    if not path.is_file():
        raise wrong(f"there is no file {path}", "Give the path of a PEM file.")
    return path


Name = Annotated[str, AfterValidator(_name)]
"""A name that becomes part of producers' names."""


class GatewaySettings(Section):
    """The gateway that a bridge posts to. `certificate` is the only one it accepts, None for those of the system."""

    url: Annotated[str, AfterValidator(_url)]
    """Address of the gateway."""
    key: Annotated[str, AfterValidator(_key)]
    """API key with the right `ingest` for the tables, and `register` if messages register them."""
    certificate: Annotated[Path, AfterValidator(_file)] | None = None
    """PEM file: the only certificate that is accepted."""
    requests: Annotated[int, whole_number(1, MAX_REQUESTS_AT_A_TIME)] = 8
    """Requests at the same time, at most one for each partition or table."""

    def client(self) -> GatewayClient:
        """Open an HTTP client, which all threads of the bridge share."""
        return GatewayClient(self.url, self.key, self.certificate)


class HealthSettings(Section):
    """The address of `/healthz`, `/readyz` and `/metrics`; port 0 takes any free one."""

    host: str = "127.0.0.1"
    """Address of the health port."""
    port: Annotated[int, whole_number(0, 65535)] = DEFAULT_HEALTH_PORT
    """Health port; 0 is any free one."""


class StopSettings(Section):
    """The time for requests in flight at the end, and when a stopped partition or table is retried."""

    within: Annotated[float, seconds(0, 600)] = 30.0
    """Time for requests in flight when the bridge ends."""
    retry_after: Annotated[float, seconds(0.01, 86_400)] = 60.0
    """Time until a stopped partition or table is retried."""


class LogSettings(Section):
    """The form of log lines. `format` `auto` is `console` in a terminal, and `json` elsewhere."""

    format: Literal["auto", "json", "console"] = "auto"
    """Form of log lines. `auto` is `console` in a terminal and `json` elsewhere."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least level that is written."""
    repeat: Annotated[float, seconds(0, 86400)] = 60.0
    """Least time between two lines about the same problem of the same partition or table."""
