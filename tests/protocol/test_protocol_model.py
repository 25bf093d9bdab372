"""Explores all states of the publication protocol: invariants that hold in each, and the rules that they need."""

import ast
from dataclasses import replace

import pytest

from tests.project.facts import REPOSITORY
from tests.protocol.cases import (
    BOUNDS,
    DROPS,
    LEASES,
    MOVES_ALL,
    OUTSIDERS,
    POWER,
    PUBLISHING,
    REDUNDANT,
    RELYING_ON_FABRIC,
    REQUIRED,
)
from tests.protocol.explore import Exploration
from tests.protocol.model import CODE, STEPS
from tests.protocol.progress import first_without_progress
from tests.protocol.rules import Bounds, Case, Mirror, Rule
from tests.protocol.state import Pc

THOROUGH_WORLDS = {"three blocks, two drains, late requests", "a failover that loses transactions of two files"}
"""More states than each run of the tests has time for; `make test-all` explores them."""
ONLY_WITHOUT_A_RULE = {Pc.REVOKE_LOOK_AGAIN}
LONG_REMOVED = replace(PUBLISHING, in_flight=0, mirror=Mirror.MOVES_ALL_REMOVES_RECORDED)


def assert_sound(case: Case) -> Exploration:
    """Assert that no reachable state breaks an invariant, and that a drain left alone ends from each of them."""
    exploration = Exploration(case)
    assert exploration.violation is None, str(exploration.violation)
    stuck = first_without_progress(exploration)
    assert stuck is None, str(stuck)
    return exploration


def defined_names(path: str) -> set[str]:
    """Return the functions and methods of a module."""
    tree = ast.parse((REPOSITORY / path).read_text(encoding="utf-8"))
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    return functions | {
        f"{c.name}.{node.name}" for c in classes for node in c.body if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "world",
    [pytest.param(world, marks=pytest.mark.thorough) if world in THOROUGH_WORLDS else world for world in BOUNDS],
)
def test_no_reachable_state_breaks_an_invariant_and_each_leads_to_publication(world: str) -> None:
    bounds, least = BOUNDS[world]
    assert assert_sound(Case(bounds)).states >= least


@pytest.mark.parametrize("rule", REQUIRED)
def test_omitting_a_required_rule_does_harm(rule: Rule) -> None:
    bounds, harm = REQUIRED[rule]
    exploration = Exploration(Case(bounds).without(rule))
    found = exploration.violation
    assert found is not None, f"without '{rule.value}' nothing is wrong in {exploration.states} states"
    assert found.what == harm, str(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "bounds",
    [PUBLISHING, DROPS, OUTSIDERS, POWER, LEASES],
    ids=["publishing", "drop", "outsiders", "power", "leases"],
)
def test_omitting_all_redundant_rules_does_no_harm(bounds: Bounds) -> None:
    assert_sound(Case(bounds).without(*REDUNDANT))


def test_every_rule_is_required_or_redundant() -> None:
    assert set(Rule) == REQUIRED.keys() | REDUNDANT.keys()
    assert not REQUIRED.keys() & REDUNDANT.keys()


def test_without_verifying_the_last_recorded_file_the_protocol_is_sound_unless_it_is_deleted() -> None:
    assert_sound(Case(LONG_REMOVED).without(*RELYING_ON_FABRIC))


def test_verifying_the_last_recorded_file_stops_healthy_tables_if_mirroring_removes_it() -> None:
    found = Exploration(Case(LONG_REMOVED)).violation
    assert found is not None
    assert found.what == "a table is quarantined without outside interference", str(found)


def test_the_protocol_relies_on_mirroring_to_keep_a_file_until_it_is_recorded() -> None:
    found = Exploration(Case(replace(MOVES_ALL, mirror=Mirror.REMOVES_ALL)).without(Rule.LAST_FILE)).violation
    assert found is not None
    assert found.what == "a number lands twice", str(found)


def test_every_step_is_reached() -> None:
    small = Bounds(blocks=1, epochs=2, in_flight=0)
    worlds = [replace(small, drops=1, epochs=3), replace(small, power=True), replace(small, outside=1)]
    taken = set().union(*(Exploration(Case(world)).steps for world in worlds))
    assert taken == set(Pc) - ONLY_WITHOUT_A_RULE


def test_every_step_models_functions_that_exist() -> None:
    assert STEPS.keys() == set(Pc)
    assert {pc for pc, code in CODE.items() if not code} == ONLY_WITHOUT_A_RULE
    for module, name in (reference.split(":") for code in CODE.values() for reference in code):
        assert name in defined_names(f"{module.replace('.', '/')}.py"), f"{module}:{name}"
