"""The examples, while they and the coordinator are killed again and again."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from conftest import Clusters, Lockstepd, Process, await_that, example, exactly_once

RECORDS = 3000
KILLS = 3  # Of each.


def survive(app: Process, lockstepd: Lockstepd) -> None:
    """Kills both in turn, each in the midst of its work."""
    app.start()
    for kill in range(2 * KILLS):
        done = app.log().count("\n")
        await_that(lambda: app.log().count("\n") > done or not app.running(), "the example to go on")
        assert app.running(), app.log()
        # Anywhere in a transaction, which takes about so long.
        await_that(lambda: random.random() < 0.3, "a moment")
        victim: Process = app if kill % 2 else lockstepd
        victim.kill()
        if not app.running():
            app.start()
        if not lockstepd.running():
            lockstepd.start()


@pytest.mark.parametrize("way", ["managed", "enlisted"])
def test_enrich(clusters: Clusters, lockstepd: Lockstepd, folder: Path, way: str) -> None:
    source, target = clusters.bootstrap["a"], clusters.bootstrap["b"]
    clusters.topic("a", "orders:3")
    clusters.topic("b", "enriched:3")
    start = {"managed": 0, "enlisted": RECORDS}[way]  # The topics are the same.
    exactly_once("fill", "--topic", f"{source}/orders", "--start", str(start), "--count", str(RECORDS))
    into = {"managed": "b", "enlisted": f"b={target}"}[way]
    app = example("enrich.py", folder / f"{way}.log", lockstepd.address, f"a={source}", into)
    try:
        survive(app, lockstepd)
        exactly_once("check", "--input", f"{source}/orders", "--output", f"{target}/enriched")
    finally:
        app.kill()
        print(app.log())


def test_fan_out(clusters: Clusters, lockstepd: Lockstepd, folder: Path) -> None:
    source, standby = clusters.bootstrap["a"], clusters.bootstrap["b"]
    for name in ("a", "b"):
        clusters.topic(name, "events-copy:3")
    clusters.topic("a", "events:3")
    exactly_once("fill", "--topic", f"{source}/events", "--count", str(RECORDS))
    app = example("fan_out.py", folder / "fan_out.log", lockstepd.address, f"a={source}", "a", "b")
    try:
        survive(app, lockstepd)
        outputs = ("--output", f"{source}/events-copy", "--output", f"{standby}/events-copy")
        exactly_once("check", "--same-values", "--input", f"{source}/events", *outputs)
    finally:
        app.kill()
        print(app.log())
