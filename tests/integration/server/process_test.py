#!/usr/bin/env python3
"""lockstepd as a process, without brokers: SIGHUP, JSON logs, folders that lose what is in them.

  process_test.py LOCKSTEPD LOCKSTEPCTL
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request
from pathlib import Path

LOCKSTEPD = sys.argv.pop(1)
LOCKSTEPCTL = sys.argv.pop(1)


class Process(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.config = self.folder / "lockstepd.yaml"

    def write(self, extra: str, data_dir: str = "",
              clusters: str = "{name: a, bootstrap_servers: '127.0.0.1:1'}") -> None:
        self.config.write_text(
            f"data_dir: {data_dir or self.folder / 'data'}\nlisten: 127.0.0.1:0\n{extra}"
            f"clusters: [{clusters}]\n", encoding="utf-8")

    def start(self) -> subprocess.Popen:
        process = subprocess.Popen([LOCKSTEPD, "--config", self.config], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        line = process.stdout.readline()
        self.assertIn("serving on", line)
        self.address = line.split()[-1]
        return process

    def ctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([LOCKSTEPCTL, "--server", self.address, *words],
                              capture_output=True, text=True, check=False)

    def clusters(self) -> list[str]:
        listed = json.loads(self.ctl("--output", "json", "clusters").stdout)
        return [cluster["name"] for cluster in listed["clusters"]]

    def await_line(self, process: subprocess.Popen, text: str) -> list[str]:
        """What was logged up to the line with `text`."""
        seen = []
        for line in process.stderr:
            seen.append(line)
            if text in line:
                return seen
        self.fail(f"{text!r} was not logged:\n{''.join(seen)}")

    def test_metrics_and_health(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        self.write(f"metrics: {{listen: '{address}'}}\n")
        process = self.start()

        def get(path: str) -> tuple[int, str]:
            try:
                with urllib.request.urlopen(f"http://{address}{path}") as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as refused:
                return refused.code, refused.read().decode()

        self.assertEqual(get("/livez"), (200, "alive\n"))
        self.assertEqual(get("/readyz"), (200, "ready\n"))
        page = get("/metrics")[1]
        self.assertIn('lockstep_cluster_state{cluster="a",state="CONNECTING"} 1\n', page)
        self.assertIn("lockstep_log_sync_seconds_count 0\n", page)
        self.assertEqual(self.ctl("drain").returncode, 0)
        self.assertEqual(get("/readyz")[0], 503)
        # A second one is told why it does not start.
        second = subprocess.run([LOCKSTEPD, "--config", self.config], text=True,
                                capture_output=True, check=False)
        self.assertEqual(second.returncode, 2)
        self.assertIn(f"metrics.listen: cannot listen on {address}: Address already in use",
                      second.stderr)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(), 0)

    def test_sighup(self) -> None:
        self.write("")
        process = self.start()
        self.write("log_level: warn\nlimits: {open_transactions: 5}\nretention: {time: 1d}\n",
                   clusters="{name: b, bootstrap_servers: '127.0.0.1:1'}, "
                            "{name: c, bootstrap_servers: '127.0.0.1:2'}")
        process.send_signal(signal.SIGHUP)
        logged = "".join(self.await_line(process, "is read again"))
        for text in ("limits.open_transactions is taken up", "log_level is taken up",
                     "retention.time has changed, and needs a restart", "cluster c is added",
                     "cluster b is added", "cluster a is gone from it"):
            self.assertIn(text, logged)
        self.assertEqual(sorted(self.clusters()), ["a", "b", "c"])
        self.write("nonsense: 1\n")
        process.send_signal(signal.SIGHUP)
        logged = "".join(self.await_line(process, "everything goes on as before"))
        self.assertIn(f"{self.config}:3: nonsense: unknown", logged)
        self.assertEqual(len(self.clusters()), 3)
        for _ in range(5):
            self.assertEqual(self.ctl("begin").returncode, 0)
        self.assertIn("limits.open_transactions is 5", self.ctl("begin").stderr)
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        self.assertEqual(process.wait(30), 0)
        self.assertNotIn("stopped", rest)  # That is info: log_level is warn by now.

    def test_backup_of_a_server_that_runs(self) -> None:
        self.write("")
        process = self.start()
        file = self.folder / "backup"
        done = self.ctl("backup", str(file))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.ctl("backup", str(file)).returncode, 1)  # Not overwritten.
        restored = self.folder / "restored"
        self.assertEqual(self.ctl("restore", str(file), str(self.folder / "data")).returncode, 1)
        done = self.ctl("restore", str(file), str(restored))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("must not run any more", done.stderr)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(30), 0)
        self.write("", str(restored))
        process = self.start()
        self.await_line(process, "was restored from a backup of log")
        info = json.loads(self.ctl("--output", "json", "log", "info").stdout)
        self.assertEqual(len(info["restored_from"]), 1)
        self.assertNotEqual(info["restored_from"][0], info["log_id"])
        self.assertEqual(info["incarnation"], "1")

    def test_restore_that_was_killed(self) -> None:
        self.write("")
        process = self.start()
        self.assertEqual(self.ctl("backup", str(self.folder / "backup")).returncode, 0)
        process.kill()
        process.wait()
        backup = (self.folder / "backup").read_bytes()
        restored = self.folder / "restored"
        # Half of it comes; for the rest it waits, and is killed.
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        with subprocess.Popen([LOCKSTEPCTL, "restore", pipe, restored],
                              stderr=subprocess.DEVNULL) as restore:
            with open(pipe, "wb") as end:
                end.write(backup[:len(backup) // 2])
                end.flush()
                while not (restored / "CURRENT").exists():
                    self.assertIsNone(restore.poll())
                restore.kill()
                restore.wait()
        self.write("", str(restored))
        refused = subprocess.run([LOCKSTEPD, "--config", self.config], capture_output=True,
                                 text=True, check=False)
        self.assertEqual(refused.returncode, 3)
        self.assertIn("did not end: restore again", refused.stderr)
        dumped = self.ctl("log", "dump", str(restored))
        self.assertEqual(dumped.returncode, 1)
        self.assertIn("did not end: restore again", dumped.stderr)
        done = self.ctl("restore", str(self.folder / "backup"), str(restored))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.await_line(self.start(), "was restored from a backup of log")

    def test_json(self) -> None:
        self.write("log_format: json\n")
        process = self.start()
        process.send_signal(signal.SIGTERM)
        lines = process.stderr.read().splitlines()
        self.assertEqual(process.wait(30), 0)
        self.assertIn("stopped", [json.loads(line)["message"] for line in lines])

    def test_memory_is_refused(self) -> None:
        self.write("", "/dev/shm/lockstep-none")
        done = subprocess.run([LOCKSTEPD, "--config", self.config], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 3)
        self.assertIn("allow_data_dir_on: tmpfs", done.stderr)
        self.assertFalse(Path("/dev/shm/lockstep-none").exists())


if __name__ == "__main__":
    unittest.main()
