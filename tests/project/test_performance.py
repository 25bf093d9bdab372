"""docs/contribute/benchmarks.md and docs/operate/sizing.md show the committed benchmark results."""

from benchmarks.reports.figure import Goal
from benchmarks.reports.report import PAGE, SIZING_PAGE, committed_page, committed_runs, page, sizing_page
from tests.benchmarks.results_samples import figure, growth, results


def test_the_page_is_what_the_committed_results_render() -> None:
    written = PAGE.read_text(encoding="utf-8") if PAGE.exists() else None
    assert written == committed_page(), "run `python -m benchmarks.reports.report`"


def test_the_tables_of_the_sizing_page_are_what_the_committed_results_give() -> None:
    written = SIZING_PAGE.read_text(encoding="utf-8")
    assert written == sizing_page(written, committed_runs()), "run `python -m benchmarks.reports.report`"


def test_the_page_has_each_figure_beside_its_limit_with_machine_and_commit() -> None:
    text = page(results(figure(goal=Goal(0.5, at_least=True)), figure("small")), growth=None)
    assert "| Title of bulk | changes/s | 60 (50 to 70) | 100 (100 to 100) | a limit | 0.60 (0.50 to 0.70) |" in text
    assert "| Title of bulk | changes/s | 60 | 100 | 0.60 | ≥ 0.50 | yes |" in text
    assert "| Title of small |" in text
    assert "- Commit 0123456789, Python 3.11.7, Postgres 18.4, pyarrow 26.0.1.\n" in text
    assert "## Growth" not in text


def test_the_page_has_growth_with_its_exponents_and_plots() -> None:
    text = page(results(figure()), growth())
    assert "| tables, fed in turn | 1 | 100 | 0.00 | 1.00 |\n" in text
    assert "![Cost of a change by tables, fed in turn](performance-tables.svg)\n" in text
