#!/usr/bin/env python3
"""Tests of what the scripts promise about themselves: a check that cannot fail checks nothing."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import unittest
from pathlib import Path
from types import ModuleType

SCRIPTS = Path(__file__).resolve().parent.parent


def load(path: Path) -> ModuleType:
    name = path.stem.replace("-", "_")
    loader = importlib.machinery.SourceFileLoader(name, str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    sys.modules[name] = module
    loader.exec_module(module)
    return module


check_includes = load(SCRIPTS / "check-includes")
run_ctest = load(SCRIPTS / "lib" / "run_ctest.py")


class CheckIncludes(unittest.TestCase):
    def test_allows_what_points_down(self) -> None:
        for folder, header in (
                ("txn", "base/ids.h"), ("txn", "vector"), ("coordinator", "txn/types.h"),
                ("log", "coordinator/ports.h"), ("log", "rocksdb/db.h"), ("log", "unistd.h"),
                ("kafka", "wire/client.h"), ("server", "log/store.h"), ("base", "time.h")):
            self.assertIsNone(check_includes.violation(folder, header), f"{folder} {header}")

    def test_refuses_what_points_up_or_out(self) -> None:
        for folder, header in (
                ("txn", "coordinator/ports.h"), ("base", "txn/types.h"), ("coordinator", "log/x.h"),
                ("coordinator", "grpcpp/grpcpp.h"), ("txn", "unistd.h"), ("wire", "kafka/lane.h"),
                ("log", "coordinator/coordinator.h"), ("kafka", "rocksdb/db.h"),
                ("server", "rocksdb/db.h"), ("server", "no/such/library.h")):
            self.assertIsNotNone(check_includes.violation(folder, header), f"{folder} {header}")


class ReadJunit(unittest.TestCase):
    @staticmethod
    def report(*cases: str) -> "run_ctest.Report":
        return run_ctest.read_junit("<testsuite>" + "".join(cases) + "</testsuite>")

    @staticmethod
    def case(status: str, output: str = "") -> str:
        return (f'<testcase name="t" time="0.5" status="{status}">'
                f"<system-out>{output}</system-out></testcase>")

    def test_a_run_that_passed_is_good(self) -> None:
        self.assertTrue(self.report(self.case("run", "[  PASSED  ] 3 tests.")).good())

    def test_anything_else_is_not(self) -> None:
        for case in (self.case("fail"), self.case("notrun"), self.case("disabled"),
                     self.case("run", "[  SKIPPED ] Lane.Rotates (0 ms)"),
                     self.case("run", "  YOU HAVE 1 DISABLED TEST")):
            self.assertFalse(self.report(self.case("run"), case).good(), case)

    def test_no_test_at_all_is_not_good(self) -> None:
        self.assertFalse(self.report().good())

    def test_output_may_hold_anything(self) -> None:
        self.assertTrue(self.report(self.case("run", "\x00\x1b[0m")).good())


if __name__ == "__main__":
    unittest.main(verbosity=0)
