#!/usr/bin/env python3
"""Tests of what the scripts promise about themselves: a check that cannot fail checks nothing."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from types import ModuleType

SCRIPTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SCRIPTS / "lib"))
# pylint: disable=wrong-import-position
from local_kafka.basics import Failure, reserve_ports  # noqa: E402
from local_kafka.cluster import Node  # noqa: E402
from local_kafka.protocol import Topic  # noqa: E402


def load(path: Path) -> ModuleType:
    name = path.stem.replace("-", "_")
    loader = importlib.machinery.SourceFileLoader(name, str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    sys.modules[name] = module
    loader.exec_module(module)
    return module


check_includes = load(SCRIPTS / "check-includes")
run_ctest = load(SCRIPTS / "lib" / "run_ctest.py")
check_protos = load(SCRIPTS / "lib" / "check_protos.py")
check_messages = load(SCRIPTS / "lib" / "check_messages.py")


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


class CheckMessages(unittest.TestCase):
    KNOWN = check_messages.literals('''
        Fail("no '" + name + "' is configured; "
             "there are: " + list);''')

    def unknown(self, cell: str) -> list[str]:
        return check_messages.unknown(f"| what | {cell} |", self.KNOWN)

    def test_knows_what_is_put_together(self) -> None:
        for cell in ("`no '…' is configured; there are: …`", "`lockstepctl log dump FOLDER`",
                     "`INVALID_ARGUMENT UNKNOWN_CLUSTER`", "no code"):
            self.assertEqual(self.unknown(cell), [], cell)

    def test_finds_what_no_source_says(self) -> None:
        self.assertEqual(len(self.unknown("`no '…' was ever configured here`")), 1)


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


class CheckProtos(unittest.TestCase):
    GOOD = """syntax = "proto3";
package lockstep.v1;
// For tests.
service Shop {
  // Sells.
  rpc Buy(BuyRequest) returns (BuyResponse);
}
message BuyRequest {
  Kind kind = 1;  // Of which.
  repeated string notes = 2;  // For people.
  oneof price {
    int64 cents = 3;  // In Euro.
  }
}
message BuyResponse {}
// Of goods.
enum Kind {
  KIND_UNSPECIFIED = 0;
  KIND_APPLE = 1;
}
"""

    def read(self, text: str) -> list[dict]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lockstep" / "v1" / "shop.proto"
            path.parent.mkdir(parents=True)
            path.write_text(text, encoding="utf-8")
            return check_protos.describe(Path(folder))

    def change(self, old: str, new: str) -> list[dict]:
        self.assertIn(old, self.GOOD)
        return self.read(self.GOOD.replace(old, new))

    def test_good_is_good(self) -> None:
        files = self.read(self.GOOD)
        self.assertEqual(check_protos.lint(files), [])
        self.assertEqual(check_protos.breaking(check_protos.shape(files), check_protos.shape(files)), [])

    def test_lint(self) -> None:
        for old, new, complaint in (
                ("repeated string notes", "repeated string Notes", "lower_snake_case"),
                ("  // For people.", "", "BuyRequest.notes has no comment"),
                ("  // Sells.\n", "", "rpc Buy has no comment"),
                ("// For tests.\n", "", "service Shop has no comment"),
                ("KIND_APPLE", "APPLE", "must begin with KIND_"),
                ("KIND_UNSPECIFIED", "KIND_NONE", "0 must be KIND_UNSPECIFIED"),
                ("returns (BuyResponse)", "returns (BuyRequest)", "a BuyResponse of its own"),
                ("package lockstep.v1", "package other", "package must be lockstep.v1")):
            with self.subTest(new or f"without {old}"):
                problems = check_protos.lint(self.change(old, new))
                self.assertTrue(any(complaint in problem for problem in problems), problems)

    def test_breaking(self) -> None:
        frozen = check_protos.shape(self.read(self.GOOD))
        for old, new, complaint in (
                ("  repeated string notes = 2;  // For people.\n", "", "field 2 (notes) was removed"),
                ("notes = 2", "notes = 4", "field 2 (notes) was removed"),
                ("string notes", "bytes notes", "was notes TYPE_STRING repeated and is notes TYPE_BYTES"),
                ("repeated string", "string", "and is notes TYPE_STRING single"),
                ("repeated string notes", "repeated string remarks", "and is remarks"),
                ("oneof price", "oneof cost", "and is cents TYPE_INT64 single cost"),
                ("  KIND_APPLE = 1;\n", "", "value 1 (KIND_APPLE) was removed"),
                ("KIND_APPLE", "KIND_PEAR", "was KIND_APPLE and is KIND_PEAR"),
                ("returns (Buy", "returns (stream Buy", "server streams was false and is true"),
                ("(BuyRequest)", "(stream BuyRequest)", "client streams was false and is true"),
                ("rpc Buy(", "rpc Sell(", "Shop.Buy was removed or renamed")):
            with self.subTest(new or f"without {old}"):
                problems = check_protos.breaking(frozen, check_protos.shape(self.change(old, new)))
                self.assertTrue(any(complaint in problem for problem in problems), problems)
                self.assertIn("keep it (deprecated = true)", problems[0])

    def test_adding_is_free(self) -> None:
        frozen = check_protos.shape(self.read(self.GOOD))
        more = self.change("message BuyResponse {}", "message BuyResponse { string id = 1; }")
        self.assertEqual(check_protos.breaking(frozen, check_protos.shape(more)), [])


class Signals(unittest.TestCase):
    """A node's process id may be somebody else's by now: then nothing is signalled."""

    def setUp(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)", "/some/node-1.properties"])
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        # Popen returns when exec has begun: the new command line shows a moment later.
        command = Path(f"/proc/{self.process.pid}/cmdline")
        while b"/some/node-1.properties" not in command.read_bytes().split(b"\0"):
            time.sleep(0.01)
        self.node = Node(1, 0, None, "/some/node-1.properties", "")
        self.node.started(self.process.pid)

    def ended(self) -> bool:
        try:
            return self.process.wait(timeout=0.2) is not None
        except subprocess.TimeoutExpired:
            return False

    def test_ours(self) -> None:
        self.assertEqual(self.node.state(), "running")
        self.node.signal(signal.SIGKILL)
        self.process.wait(timeout=30)
        self.assertEqual(self.node.state(), "stopped")

    def test_another_start_time(self) -> None:
        self.node.start_time = (self.node.start_time or 0) + 1
        self.node.signal(signal.SIGKILL)
        self.assertFalse(self.ended())
        self.assertEqual(self.node.state(), "stopped")

    def test_another_command_line(self) -> None:
        self.node.config = "/some/node-2.properties"
        self.node.signal(signal.SIGKILL)
        self.assertFalse(self.ended())


class Ports(unittest.TestCase):
    def test_stay_reserved_while_the_folder_exists(self) -> None:
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            taken = [reserve_ports(20, Path(folder)) for folder in (one, other, one)]
        self.assertEqual(len(set(sum(taken, []))), 60)


class Topics(unittest.TestCase):
    def test_forms(self) -> None:
        self.assertEqual(Topic.parse("orders"), Topic("orders", 1, []))
        self.assertEqual(Topic.parse("a.b-c_d:3@2,1"), Topic("a.b-c_d", 3, [2, 1]))
        for text in ("", "a:b", "a:3@", "a/b"):
            self.assertRaises(Failure, Topic.parse, text)


if __name__ == "__main__":
    unittest.main(verbosity=0)
