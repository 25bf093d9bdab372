"""The lock files match their inputs. `make lock` writes them."""

import re

import pytest

from tests.project.facts import REPOSITORY, direct_requirements, locked_versions

CLIENT = ["mirrorgate", "mirrorgate-gateway"]
API = [*CLIENT, "mirrorgate-gateway[server]", "mirrorgate-gateway[api]"]
BRIDGE = ["mirrorgate-bridge", "mirrorgate-bridge[kafka]", "mirrorgate-bridge[objects]"]
DRAIN = [
    *CLIENT, *(f"mirrorgate-gateway[{extra}]" for extra in ("server", "drain", "mirror", "onelake")), "mirrorgate-zone",
]  # fmt: skip
RUN = [*API, *BRIDGE, *DRAIN, "mirrorgate-gateway[embedded]"]
PLACES = {
    "dev.lock": [*RUN, "mirrorgate-gateway[dev]"],
    "client.lock": CLIENT,
    "api.lock": API,
    "api-rows.lock": [*API, "mirrorgate-gateway[rows]"],
    "drain.lock": DRAIN,
    "run.lock": RUN,
    "bridge.lock": [*CLIENT, *BRIDGE],
}
LINES = [
    re.compile(kind)
    for kind in (r"[a-z0-9._-]+==[A-Za-z0-9.]+( ; .+)? \\", r"    --hash=sha256:[0-9a-f]{64}( \\)?", r"\s*#.*", "")
]
"""A package, one of its hashes, a comment, and nothing."""


@pytest.mark.parametrize("lock", PLACES)
def test_a_lock_pins_every_direct_dependency_within_its_bounds(lock: str) -> None:
    pins = locked_versions(lock)
    for place in PLACES[lock]:
        for requirement in direct_requirements()[place]:
            assert requirement.specifier.contains(pins[requirement.name]), f"{requirement} in {lock}; run `make lock`"


@pytest.mark.parametrize("lock", [*PLACES, "sdk.lock", "real.lock", "real-fabric.lock"])
def test_a_lock_names_packages_and_the_hashes_of_each_only_and_no_place_to_get_them_from(lock: str) -> None:
    text = (REPOSITORY / "requirements" / lock).read_text()
    for line in text.splitlines():
        assert not re.search(r"://|file:|[a-z]:\\| /", line), line
        assert any(kind.fullmatch(line) for kind in LINES), line
    pins = re.split(r"^(?=[a-z0-9._-]+==)", text, flags=re.MULTILINE)[1:]
    assert len(pins) == len(locked_versions(lock))
    assert not [pin.splitlines()[0] for pin in pins if "--hash=sha256:" not in pin], "run `make lock`"


def test_whatever_installs_from_a_lock_checks_the_hashes() -> None:
    installing = [
        (name, line)
        for name in ("Dockerfile", "tools/make_venv.sh", "docs/get-started/install.md")
        for line in (REPOSITORY / name).read_text().splitlines()
        if re.search(r"--requirement \S+\.lock", line)
    ]
    assert {name for name, _ in installing} == {"Dockerfile", "tools/make_venv.sh", "docs/get-started/install.md"}
    assert [line for _, line in installing if "--require-hashes" not in line] == []


@pytest.mark.parametrize("lock", [lock for lock in PLACES if lock != "dev.lock"])
def test_every_lock_has_the_versions_that_were_tested(lock: str) -> None:
    assert locked_versions(lock).items() <= locked_versions("dev.lock").items(), "run `make lock`"


def test_the_client_has_nothing_of_the_server() -> None:
    needed = {place: {requirement.name for requirement in each} for place, each in direct_requirements().items()}
    own = {"pydantic"}.union(*(needed.pop(place) for place in CLIENT))  # Typer needs it
    assert not locked_versions("client.lock").keys() & (set().union(*needed.values()) - own)


def test_nothing_needs_pandas() -> None:
    """Where it is installed PyArrow imports it with the first value that it converts: 40 MB and half a second."""
    assert not [lock for lock in PLACES if "pandas" in locked_versions(lock)]
