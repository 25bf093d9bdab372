"""The bills of materials list what the images install, and are valid CycloneDX."""

import json
from functools import cache
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.utils import canonicalize_name

from tests.project.facts import locked_versions, project_table
from tools.sbom import TARGETS, bill, installed_lines

OF_OTHER_SYSTEMS = {"colorama", "pywin32", "pywinpty", "tzdata"}


@cache
def written(target: str) -> str:
    return bill(target)


def components(target: str) -> dict[str, dict[str, Any]]:
    return {component["name"]: component for component in json.loads(written(target))["components"]}


@pytest.mark.parametrize(
    "target", ["bridge", *(pytest.param(name, marks=pytest.mark.thorough) for name in TARGETS[:2])]
)
def test_a_bill_is_valid_complete_and_names_its_image(target: str) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(written(target)) is None
    found = {canonicalize_name(name): component["version"] for name, component in components(target).items()}
    locked = locked_versions(f"{target}.lock")
    assert locked.items() - found.items() <= {(name, locked[name]) for name in OF_OTHER_SYSTEMS & locked.keys()}
    assert found.items() <= locked.items()
    document = json.loads(written(target))
    subject = document["metadata"]["component"]
    assert (subject["name"], subject["version"]) == (f"mirrorgate-{target}", project_table()["version"])
    [dependencies] = document["dependencies"]
    assert len(dependencies["dependsOn"]) == len(found)


def test_every_package_of_a_bill_has_the_digests_of_its_files() -> None:
    for name, component in components("bridge").items():
        [distribution] = component["externalReferences"]
        assert distribution["hashes"] and component["purl"] == f"pkg:pypi/{name}@{component['version']}"


@pytest.mark.thorough
def test_a_bill_is_written_the_same_every_time() -> None:
    assert bill("bridge") == written("bridge")
    assert "timestamp" not in written("bridge") and "serialNumber" not in written("bridge")


def test_packages_of_other_systems_are_left_out() -> None:
    lock = (
        "one==1.0 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n    # via x\ntwo==2.0 ; sys_platform == 'win32'\n"
    )
    assert list(installed_lines(lock.replace("    # via x\n", ""))) == ["one==1.0 --hash=sha256:aa --hash=sha256:bb"]
