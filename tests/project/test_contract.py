"""openapi/mirrorgate.v1.yaml is the app's contract, rejections included. `make openapi` writes it."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from openapi_spec_validator import OpenAPIV31SpecValidator

from tools.openapi import CONTRACT, render_contract


@pytest.fixture(scope="module")
def rendered() -> str:
    return render_contract()


@pytest.fixture(scope="module")
def contract(rendered: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.load(rendered, yaml.CSafeLoader)
    return loaded


def operations(contract: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in contract["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_the_committed_contract_is_the_one_of_the_app(rendered: str) -> None:
    assert CONTRACT.read_text(encoding="utf-8") == rendered, "run `make openapi` and commit the result"


def test_the_contract_is_valid_openapi(contract: dict[str, Any]) -> None:
    assert contract["openapi"].startswith("3.1.")
    assert [error.message for error in OpenAPIV31SpecValidator(contract).iter_errors()] == []


def test_every_problem_is_documented_as_problem_json_and_as_nothing_else(contract: dict[str, Any]) -> None:
    problem = {"$ref": "#/components/schemas/ProblemModel"}
    for name, operation in operations(contract):
        for status, response in operation["responses"].items():
            for media_type, described in response.get("content", {}).items():
                is_problem = described.get("schema") == problem
                assert is_problem == (media_type == "application/problem+json"), f"{name} {status} {media_type}"
                assert not is_problem or int(status) >= 400, f"{name} {status}"


def test_the_framework_documents_no_answer_that_the_app_never_gives(contract: dict[str, Any]) -> None:
    assert not contract["components"]["schemas"].keys() & {"HTTPValidationError", "ValidationError"}
    for name, operation in operations(contract):
        checked = [
            parameter for parameter in operation.get("parameters", []) if parameter["schema"].get("type") != "string"
        ]
        if checked or "requestBody" in operation:
            assert "400" in operation["responses"], name
