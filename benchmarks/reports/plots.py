"""Draw growth with matplotlib in its own virtual environment: `python -m benchmarks.reports.plots FILE FOLDER`."""

import sys
from pathlib import Path
from typing import Final

from benchmarks.machine.description import REPOSITORY
from benchmarks.machine.processes import run_to_end
from benchmarks.machine.venv import venv_python
from benchmarks.reports.growth_results import Series, read_growth

MATPLOTLIB: Final = "matplotlib==3.11.2"
DOCS: Final = REPOSITORY / "docs" / "contribute"


def plot_name(series: Series) -> str:
    """Return the file name of a series' plot."""
    return f"performance-{series.name}.svg"


def draw(file: Path, folder: Path = DOCS) -> list[Path]:
    """Write one SVG per series of a growth file; return the files.

    Raises BenchmarkFailed when matplotlib cannot be installed.
    """
    python = venv_python("plots", [MATPLOTLIB, "msgspec"])
    run_to_end("drawing", [str(python), "-m", "benchmarks.reports.plots", str(file), str(folder)])
    return [folder / plot_name(series) for series in read_growth(file).series]


def _draw_one(series: Series, file: Path) -> None:
    import matplotlib  # only installed in the virtual environment

    matplotlib.use("svg")
    # Without a fixed salt, the same measurements would give a different file.
    matplotlib.rcParams.update({"svg.hashsalt": series.name, "svg.fonttype": "none"})
    from matplotlib import pyplot, ticker

    figure, axes = pyplot.subplots(figsize=(6, 3.4))
    sizes = [point.size for point in series.points]
    for name, costs, exponent in (
        ("accept", [point.accept for point in series.points], series.accept_exponent),
        ("publish", [point.publish for point in series.points], series.publish_exponent),
    ):
        axes.plot(sizes, costs, marker="o", label=f"{name}, exponent {exponent:.2f}")
    axes.set(xscale="log", yscale="log", xlabel=series.title, ylabel="µs a change")
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:,.0f}")
        axis.set_minor_formatter("")
    axes.grid(visible=True, which="both", alpha=0.25)
    axes.legend()
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)


if __name__ == "__main__":
    growth_file, target = map(Path, sys.argv[1:])
    for one in read_growth(growth_file).series:
        _draw_one(one, target / plot_name(one))
