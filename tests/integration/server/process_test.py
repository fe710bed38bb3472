#!/usr/bin/env python3
"""lockstepd as a process, without brokers: SIGHUP, JSON logs, folders that lose what is in them.

  process_test.py LOCKSTEPD
"""

import json
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LOCKSTEPD = sys.argv.pop(1)


class Process(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.config = self.folder / "lockstepd.yaml"

    def write(self, extra: str, data_dir: str = "") -> None:
        self.config.write_text(
            f"data_dir: {data_dir or self.folder / 'data'}\nlisten: 127.0.0.1:0\n{extra}"
            "clusters: [{name: a, bootstrap_servers: '127.0.0.1:1'}]\n", encoding="utf-8")

    def start(self) -> subprocess.Popen:
        process = subprocess.Popen([LOCKSTEPD, "--config", self.config], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.assertIn("serving on", process.stdout.readline())
        return process

    def await_line(self, process: subprocess.Popen, text: str) -> list[str]:
        """What was logged up to the line with `text`."""
        seen = []
        for line in process.stderr:
            seen.append(line)
            if text in line:
                return seen
        self.fail(f"{text!r} was not logged:\n{''.join(seen)}")

    def test_sighup(self) -> None:
        self.write("")
        process = self.start()
        self.write("log_level: warn\nlimits: {open_transactions: 5}\n")
        process.send_signal(signal.SIGHUP)
        logged = "".join(self.await_line(process, "limits.open_transactions has changed, and needs"))
        self.assertNotIn("log_level has changed", logged)
        self.write("nonsense: 1\n")
        process.send_signal(signal.SIGHUP)
        logged = "".join(self.await_line(process, "everything goes on as before"))
        self.assertIn(f"{self.config}:3: nonsense: unknown", logged)
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        self.assertEqual(process.wait(30), 0)
        self.assertNotIn("stopped", rest)  # That is info: log_level is warn by now.

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
