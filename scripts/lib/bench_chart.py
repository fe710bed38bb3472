#!/usr/bin/python3
"""Draws reports of lockstep-bench: throughput, latency and CPU time of each mode, a row a report.

  bench_chart.py --output FILE.svg REPORT.json...   (needs python3-matplotlib: by Debian's Python)

A point is the median over the rounds, its whisker the minimum and maximum. Scales are logarithmic.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

try:
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
except ImportError:
    sys.exit("bench_chart.py: needs matplotlib: apt-get install python3-matplotlib")

PERCENTILES = ("p50", "p90", "p99", "p999", "max")


def points(axes: Any, spreads: dict[str, dict[str, float]], title: str) -> None:
    """One for each name. Not bars: they would have no foot on a logarithmic scale."""
    axes.set_title(title)
    names = list(spreads)
    medians = [spreads[name]["median"] for name in names]
    below = [spreads[name]["median"] - spreads[name]["min"] for name in names]
    above = [spreads[name]["max"] - spreads[name]["median"] for name in names]
    axes.errorbar(medians, names, xerr=[below, above], fmt="o", capsize=4)
    axes.set_xscale("log")
    axes.margins(x=0.2, y=0.1)
    axes.grid(axis="x", which="both", alpha=0.3)
    axes.invert_yaxis()
    for position, median in enumerate(medians):
        axes.annotate(f"{median:,.0f}", (median, position), xytext=(0, 7),
                      textcoords="offset points", ha="center", fontsize=8)


def draw(report: dict[str, Any], name: str, row: Any) -> None:
    summary = {mode: report["summary"][mode] for mode in report["options"]["modes"]}
    points(row[0], {mode: summary[mode]["transactions_per_second"] for mode in summary},
           f"{name}: transactions a second")
    row[1].set_title("latency, ms")
    for mode, figures in summary.items():
        row[1].plot(PERCENTILES,
                    [figures[f"latency_us/{each}"]["median"] / 1000 for each in PERCENTILES],
                    marker="o", label=mode)
    row[1].set_yscale("log")
    row[1].legend(fontsize=8)
    prefix = "cpu_us/"
    points(row[2], {f"{mode}, {path[len(prefix):]}": spread for mode, figures in summary.items()
                    for path, spread in figures.items()
                    if path.startswith(prefix) and spread["median"] > 0},
           "CPU time a transaction, µs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("reports", nargs="+", type=Path, metavar="REPORT")
    args = parser.parse_args()
    figure, rows = pyplot.subplots(len(args.reports), 3, squeeze=False, layout="constrained",
                                   figsize=(18, 5 * len(args.reports)))
    for path, row in zip(args.reports, rows):
        draw(json.loads(path.read_text(encoding="utf-8")), path.stem, row)
    figure.savefig(args.output)


if __name__ == "__main__":
    main()
