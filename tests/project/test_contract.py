"""openapi/mirrorgate.v1.yaml is the app's contract, rejections included. `make openapi` writes it."""

from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.contract.reading import PROBLEM, load_contract, operations
from tools.openapi import CONTRACT, render_contract


def test_the_committed_contract_is_the_one_of_the_app() -> None:
    assert CONTRACT.read_text(encoding="utf-8") == render_contract(), "run `make openapi` and commit the result"


def test_the_contract_is_valid_openapi() -> None:
    assert load_contract()["openapi"].startswith("3.1.")
    assert [error.message for error in OpenAPIV31SpecValidator(load_contract()).iter_errors()] == []


def test_every_problem_is_documented_as_problem_json_and_as_nothing_else() -> None:
    problem = {"$ref": "#/components/schemas/ProblemModel"}
    for operation in operations(load_contract()):
        for status, response in operation.responses.items():
            for media_type, described in response.get("content", {}).items():
                is_problem = described.get("schema") == problem
                assert is_problem == (media_type == PROBLEM), f"{operation} {status} {media_type}"
                assert not is_problem or int(status) >= 400, f"{operation} {status}"


def test_the_framework_documents_no_answer_that_the_app_never_gives() -> None:
    assert not load_contract()["components"]["schemas"].keys() & {"HTTPValidationError", "ValidationError"}
    for operation in operations(load_contract()):
        checked = any(parameter["schema"].get("type") != "string" for parameter in operation.parameters)
        if checked or operation.bodies:
            assert "400" in operation.responses, operation
