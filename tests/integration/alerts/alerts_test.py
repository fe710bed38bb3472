#!/usr/bin/env python3
"""The alerts and the dashboard of deploy/, in Prometheus itself.

  alerts_test.py ALERTS_STAGE

Two Prometheus servers look at one stage each: one where all goes well, and one where all goes wrong
that there is an alert for. The rules are those of deploy/, with their patience taken away.
"""

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

STAGE = sys.argv.pop(1)
ROOT = Path(__file__).resolve().parents[3]
RULES = ROOT / "deploy/prometheus/alerts.yaml"
DASHBOARD = ROOT / "deploy/grafana/dashboard.json"
RUNBOOK = ROOT / "docs/runbook.md"
METRICS = ROOT / "docs/metrics.md"

# What the rules wait for, and what these tests do. One that matches nothing is a mistake here.
PATIENCE = [(r"for: \d+m", "for: 0s"), (r"\[5m\]", "[10s]"), (r"\[15m\]", "[60s]"),
            (r"lockstep_recovery_seconds > 120", "lockstep_recovery_seconds > 3")]
WITHIN = 90


def impatient(rules: str) -> str:
    for pattern, quick in PATIENCE:
        rules, count = re.subn(pattern, quick, rules)
        assert count > 0, f"{pattern} is in no rule any more"
    return rules


def alert_names() -> set[str]:
    return set(re.findall(r"- alert: (\w+)", RULES.read_text(encoding="utf-8")))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(condition, problem) -> None:
    end = time.monotonic() + WITHIN
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(problem())
        time.sleep(0.2)


class Stage:
    def __init__(self, scene: str, port: int, incarnation: int = 1) -> None:
        self.process = subprocess.Popen([STAGE, scene, str(port), str(incarnation)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        line = self.process.stdout.readline()
        assert line == "playing\n", f"the stage ended: {line}"

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Prometheus:
    def __init__(self, folder: Path, *targets: int) -> None:
        (folder / "alerts.yaml").write_text(impatient(RULES.read_text(encoding="utf-8")))
        listed = ", ".join(f"'127.0.0.1:{port}'" for port in targets)
        (folder / "prometheus.yaml").write_text(
            "global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}\n"
            "rule_files: [alerts.yaml]\n"
            "scrape_configs:\n"
            f"  - {{job_name: lockstep, static_configs: [{{targets: [{listed}]}}]}}\n")
        self.port = free_port()
        self.log = (folder / "prometheus.log").open("w+")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={folder / 'prometheus.yaml'}",
             f"--storage.tsdb.path={folder / 'data'}",
             f"--web.listen-address=127.0.0.1:{self.port}"], stdout=self.log, stderr=self.log)
        until(self.is_ready, lambda: Path(self.log.name).read_text())

    def is_ready(self) -> bool:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready"):
                return True
        assert self.process.poll() is None, Path(self.log.name).read_text()
        return False

    def ask(self, path: str, **query: str) -> dict:
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as problem:
            raise AssertionError(f"{query}: {problem.read().decode()}") from problem

    def alerts(self) -> list[dict]:
        return self.ask("alerts")["alerts"]

    def firing(self) -> set[str]:
        return {alert["labels"]["alertname"] for alert in self.alerts()
                if alert["state"] == "firing"}

    def values(self, query: str) -> list[float]:
        result = self.ask("query", query=query)["result"]
        return [float(series["value"][1]) for series in result]

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.log.close()


def dashboard_queries() -> list[tuple[str, str]]:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    queries = [(panel["title"], target["expr"]) for panel in dashboard["panels"]
               for target in panel.get("targets", [])]
    assert len(queries) > 30
    return queries


def filled_in(query: str) -> str:
    """As Grafana asks, with everything selected."""
    for name, value in (("$__rate_interval", "10s"), ("$instance", ".*"), ("$cluster", ".*")):
        query = query.replace(name, value)
    assert "$" not in query, query
    return query


class Documents(unittest.TestCase):
    def test_the_rules_are_well_formed(self) -> None:
        subprocess.run(["promtool", "check", "rules", "--lint-fatal", RULES], check=True,
                       capture_output=True)

    def test_each_alert_has_its_page_in_the_runbook(self) -> None:
        rules = RULES.read_text(encoding="utf-8")
        for name in alert_names():
            self.assertIn(f"runbook_url: docs/runbook.md#{name.lower()}\n", rules)
        pages = re.findall(r"^## (\w+)$", RUNBOOK.read_text(encoding="utf-8"), re.MULTILINE)
        self.assertEqual(sorted(pages), sorted(alert_names()))

    def test_only_metrics_that_there_are_are_asked_for(self) -> None:
        known = set(re.findall(r"^\| `(\w+)` \|", METRICS.read_text(encoding="utf-8"), re.MULTILINE))
        text = RULES.read_text(encoding="utf-8") + DASHBOARD.read_text(encoding="utf-8")
        text += RUNBOOK.read_text(encoding="utf-8")
        asked = set(re.findall(r"\b(?:lockstep|process)_[a-z_]+", text)) - {"lockstep_"}
        asked = {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked}
        self.assertEqual(asked - known, set())


class OnStage(unittest.TestCase):
    def prometheus(self, *targets: int) -> Prometheus:
        folder = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(folder.cleanup)
        prometheus = Prometheus(Path(folder.name), *targets)
        self.addCleanup(prometheus.end)
        return prometheus

    def stage(self, scene: str, port: int, incarnation: int = 1) -> Stage:
        stage = Stage(scene, port, incarnation)
        self.addCleanup(stage.end)
        return stage

    def test_each_alert_fires_when_its_condition_is_caused(self) -> None:
        bad, down, restarting = free_port(), free_port(), free_port()
        self.stage("bad", bad)
        prometheus = self.prometheus(bad, down, restarting)
        for incarnation in range(1, 5):
            stage = Stage("good", restarting, incarnation)
            query = f'lockstep_incarnation{{instance="127.0.0.1:{restarting}"}}'
            until(lambda: prometheus.values(query) == [incarnation], lambda: f"no {query}")
            stage.end()
        fired: set[str] = set()  # Not all at one time: a server does not recover for long.

        def all_fired() -> bool:
            fired.update(prometheus.firing())
            return fired == alert_names()

        until(all_fired, lambda: f"silent: {sorted(alert_names() - fired)}")
        for alert in prometheus.alerts():
            for text in alert["annotations"].values():
                self.assertNotRegex(text, "<no value>|<error|{{")

    def test_none_fires_while_all_goes_well_and_every_query_of_the_dashboard_has_data(self) -> None:
        port = free_port()
        self.stage("good", port)
        prometheus = self.prometheus(port)
        fired: set[str] = set()

        def missing() -> list[str]:
            fired.update(prometheus.firing())
            return [f"{title}: {query}" for title, query in dashboard_queries()
                    if not any(value == value for value in prometheus.values(filled_in(query)))]

        until(lambda: not missing(), lambda: "without data:\n" + "\n".join(missing()))
        # Long enough for every rate in the rules.
        until(lambda: prometheus.values("count_over_time(up[15s])") >= [25], lambda: "no scrapes")
        fired.update(prometheus.firing())
        self.assertEqual(fired, set())


if __name__ == "__main__":
    unittest.main(verbosity=2)
