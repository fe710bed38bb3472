#!/usr/bin/env python3
"""Each rule of the checker has a history here in which it fires, and only it."""

from __future__ import annotations

import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
# pylint: disable=wrong-import-position
from torture.checker import RULES, SETTLING, Limits, Verdict, check, unknown_keys  # noqa: E402
from torture.history import Event, History, events  # noqa: E402


class Story:
    """A history that is told in the order of its events. Without more words it is a good one."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._offsets: dict[tuple[str, str, int], int] = {}

    def add(self, event: str, /, **values: Any) -> Story:
        self.events.append({"e": event, "at": float(len(self.events)), **values})
        return self

    def intent(self, name: str, *writes: tuple[str, str, int], client: str = "c",
               mode: str = "managed", **values: Any) -> Story:
        places = [[*write, index] for index, write in enumerate(writes)]
        self.add("intent", t=name, client=client, mode=mode, writes=places, **values)
        return self

    def begun(self, name: str) -> Story:
        return self.add("begun", t=name, id=f"id-{name}")

    def answer(self, name: str, outcome: str, op: str = "commit", **values: Any) -> Story:
        self.add("ask", t=name, op=op)
        return self.add("answer", t=name, op=op, outcome=outcome, asked=self.events[-1]["at"], **values)

    def read(self, name: str, cluster: str, topic: str, partition: int, index: int,
             offset: int | None = None) -> Story:
        where = (cluster, topic, partition)
        offset = self._offsets.get(where, -1) + 1 if offset is None else offset
        self._offsets[where] = max(self._offsets.get(where, -1), offset)
        return self.add("read", c=cluster, topic=topic, p=partition, records=[[offset, name, index, 9]])

    def committed(self, name: str, *writes: tuple[str, str, int], **values: Any) -> Story:
        """One on both clusters, or with these writes, as it should be."""
        writes = writes or (("a", "data", 0), ("b", "data", 0))
        self.intent(name, *writes, **values).begun(name).answer(name, "COMMITTED")
        for index, write in enumerate(writes):
            self.read(name, *write, index)
        return self.add("final", t=name, state="COMMITTED")

    def aborted(self, name: str) -> Story:
        self.intent(name, ("a", "data", 0), ("b", "data", 0)).begun(name).answer(name, "ABORTED")
        return self.add("final", t=name, state="ABORTED")

    def verdict(self, limits: Limits = Limits(), quiet: bool = True) -> Verdict:
        if quiet:
            for what in SETTLING:
                self.add("settled", what=what, after=1.0)
        for when in ("begin", "end"):
            self.add("process", when=when, rss_kib=50_000, threads=80, files=100)
        return check(self.events, limits)


BOTH = (("a", "data", 0), ("b", "data", 0))


class UnknownKeysTest(unittest.TestCase):
    def assert_unknown(self, wanted: bool, story: Story) -> None:
        self.assertEqual(list(unknown_keys(story.events)), ["key"] if wanted else [])

    @staticmethod
    def key(mode: str = "bank") -> Story:
        return Story().intent("key", *BOTH, mode=mode)

    def test_what_was_answered_is_known(self) -> None:
        for outcome in ("COMMITTED", "ABORTED", "HEURISTIC"):
            self.assert_unknown(False, self.key().answer("key", outcome, op="execute"))

    def test_what_was_not_answered_is_not(self) -> None:
        self.assert_unknown(True, self.key())
        self.assert_unknown(True, self.key().add("ask", t="key", op="execute"))
        self.assert_unknown(True, self.key().answer("key", "COMMITTING", op="execute"))

    def test_who_was_killed_in_the_next_attempt_may_have_committed(self) -> None:
        story = self.key().answer("key", "ABORTED", op="execute").add("ask", t="key", op="execute")
        self.assert_unknown(True, story)
        self.assert_unknown(False, story.add("answer", t="key", op="execute", outcome="COMMITTED"))

    def test_of_two_calls_at_once_one_may_not_be_answered(self) -> None:
        story = self.key("execute").add("ask", t="key", op="execute").add("ask", t="key", op="execute")
        self.assert_unknown(True, story.add("answer", t="key", op="execute", outcome="ABORTED"))

    def test_what_has_no_key_is_not_executed_again(self) -> None:
        self.assert_unknown(False, self.key("managed").begun("key"))


class RulesTest(unittest.TestCase):
    fired: set[str] = set()

    def assert_fires(self, rules: set[str] | str, story: Story, **values: Any) -> None:
        wanted = {rules} if isinstance(rules, str) else rules
        verdict = story.verdict(**values)
        self.assertEqual({violation.rule for violation in verdict.violations}, wanted,
                         verdict.violations)
        self.fired.update(wanted)

    def test_a_good_history(self) -> None:
        story = Story().committed("one").aborted("two").committed("three", client="d")
        story.intent("gone", *BOTH).begun("gone").add("vanished", t="gone")
        story.add("final", t="gone", state="ABORTED")
        story.intent("never begun", *BOTH)
        verdict = story.verdict()
        self.assertEqual(verdict.violations, [])
        self.assertEqual(verdict.invalid, [])
        self.assertEqual(verdict.counts["managed COMMITTED"], 2)

    def test_one_cluster_lacks_it(self) -> None:
        story = Story().committed("one")
        story.intent("torn", *BOTH).begun("torn").add("ask", t="torn", op="commit")
        story.read("torn", "a", "data", 0, 0).add("final", t="torn", state="COMMITTED")
        self.assert_fires({"all or nothing", "no commit is lost"}, story)

    def test_one_of_two_records_of_a_cluster(self) -> None:
        story = Story().committed("one")
        story.intent("torn", ("a", "data", 0), ("a", "data", 1)).begun("torn")
        story.answer("torn", "HEURISTIC", branches={"a": ["COMMITTED", "lane"]})
        story.add("fault", kind="operator", acted=True, load=99, ids=["lane"], **{"from": 0, "to": 9})
        story.add("final", t="torn", state="HEURISTIC").add("reported", txns=["id-torn"])
        story.read("torn", "a", "data", 1, 1)
        self.assert_fires("all or nothing", story)

    def test_nothing_of_what_was_acknowledged(self) -> None:
        story = Story().committed("one")
        story.intent("lost", *BOTH).begun("lost").answer("lost", "COMMITTED")
        story.add("final", t="lost", state="COMMITTED")
        self.assert_fires("no commit is lost", story)

    def test_an_aborted_record_is_seen(self) -> None:
        story = Story().committed("one").aborted("two")
        story.read("two", "a", "data", 0, 0).read("two", "b", "data", 0, 1)
        self.assert_fires("no aborted record is read", story)

    def test_nobody_asked_to_commit(self) -> None:
        story = Story().committed("one").intent("gone", *BOTH).begun("gone")
        story.add("vanished", t="gone").add("final", t="gone", state="COMMITTED")
        story.read("gone", "a", "data", 0, 0).read("gone", "b", "data", 0, 1)
        self.assert_fires("no aborted record is read", story)

    def test_two_answers(self) -> None:
        story = Story().committed("one").committed("two")
        story.answer("two", "ABORTED", op="abort")
        self.assert_fires("decisions are final", story)

    def test_committing_ends_in_aborted(self) -> None:
        story = Story().committed("one").intent("two", *BOTH).begun("two").answer("two", "COMMITTING")
        story.add("final", t="two", state="ABORTED")
        self.assert_fires("decisions are final", story)

    @staticmethod
    def ended_by_an_operator(told: str) -> Story:
        story = Story().committed("one").intent("two", *BOTH).begun("two").answer("two", told)
        story.add("fault", kind="operator", acted=True, load=99, ids=["lane"], **{"from": 0, "to": 9})
        story.add("final", t="two", state="HEURISTIC",
                  branches={"a": ["COMMITTED", "x"], "b": ["ABORTED", "lane"]})
        return story.add("reported", txns=["id-two"]).read("two", "a", "data", 0, 0)

    def test_what_is_decided_may_end_as_heuristic_and_what_committed_may_not(self) -> None:
        self.assertEqual(self.ended_by_an_operator("COMMITTING").verdict().violations, [])
        self.assert_fires("decisions are final", self.ended_by_an_operator("COMMITTED"))

    def test_a_key_runs_again_after_its_abort_only(self) -> None:
        story = Story().intent("key", *BOTH, mode="execute").answer("key", "ABORTED", op="execute")
        story.answer("key", "COMMITTED", op="execute")
        story.read("key", "a", "data", 0, 0).read("key", "b", "data", 0, 1)
        self.assertEqual(story.verdict().violations, [])
        self.assert_fires("decisions are final", story.answer("key", "ABORTED", op="execute"))

    def test_an_outcome_stays_unknown(self) -> None:
        story = Story().committed("one").intent("two", *BOTH).begun("two")
        story.add("ask", t="two", op="commit").add("final", t="two", state="PREPARING")
        self.assert_fires("every outcome becomes known", story)

    def test_a_key_is_never_answered(self) -> None:
        story = Story().committed("one").intent("key", *BOTH, mode="execute")
        story.add("ask", t="key", op="execute")
        self.assert_fires("every outcome becomes known", story)

    def test_a_record_twice(self) -> None:
        story = Story().committed("one").read("one", "a", "data", 0, 0)
        self.assert_fires("no duplicate", story)

    def test_another_record_at_the_same_offset(self) -> None:
        story = Story().committed("one", ("a", "data", 0), ("a", "data", 1))
        story.committed("two", ("a", "data", 0), ("a", "data", 1), client="d")
        story.read("two", "a", "data", 0, 0, offset=0)
        self.assert_fires({"records do not change", "no duplicate"}, story)

    def test_a_record_that_nobody_meant(self) -> None:
        story = Story().committed("one").read("one", "a", "data", 3, 7).read("who", "b", "data", 0, 0)
        self.assert_fires("no stranger", story)

    def test_order_within_a_transaction(self) -> None:
        story = Story().intent("two", ("a", "data", 0), ("a", "data", 0)).begun("two")
        story.answer("two", "COMMITTED").add("final", t="two", state="COMMITTED")
        story.read("two", "a", "data", 0, 0, offset=5).read("two", "a", "data", 0, 1, offset=4)
        self.assert_fires("order", story)

    def test_order_of_a_client(self) -> None:
        story = Story().committed("one", ("a", "data", 0))
        story.events[4]["records"][0][0] = 9  # Behind the next one.
        story.committed("two", ("a", "data", 0))
        self.assert_fires("order", story)

    def test_clients_that_do_not_wait_have_no_order(self) -> None:
        story = Story().committed("one", ("a", "data", 0))
        story.events[4]["records"][0][0] = 9
        story.committed("two", ("a", "data", 0), client="d")
        self.assertEqual(story.verdict().violations, [])

    def test_money_is_made(self) -> None:
        story = Story().committed("one", mode="bank", money={"0": -7, "1": 7})
        self.assertEqual(story.verdict().violations, [])
        story = Story().committed("one", mode="bank", money={"0": -7, "1": 8})
        self.assert_fires("the bank's total", story)

    def copies(self, end: int) -> Story:
        story = Story()
        for number in range(3):
            story.read(f"in-{number}", "a", "source", 0, 0)
        story.committed("copy", ("b", "copies", 0), ("b", "copies", 0), mode="copy",
                        sources=[[0, 0], [0, 1]])
        return story.add("group", c="a", group="g", topic="source", p=0, offset=end)

    def test_offsets_agree(self) -> None:
        self.assertEqual(self.copies(2).verdict().violations, [])
        self.assert_fires("offsets agree with records", self.copies(3))
        self.assert_fires("offsets agree with records", self.copies(1))

    def test_copied_again(self) -> None:
        story = self.copies(2)
        story.committed("again", ("b", "copies", 0), mode="copy", sources=[[0, 1]])
        self.assert_fires("offsets agree with records", story)

    def test_not_quiet(self) -> None:
        story = Story().committed("one").add("unsettled", what=SETTLING[0], message="two in doubt")
        for what in SETTLING[1:]:
            story.add("settled", what=what, after=12.0)
        self.assert_fires("quiet afterwards", story, quiet=False)
        self.assertEqual(len(story.verdict(quiet=False).notes), 3)
        self.assert_fires("quiet afterwards", Story().committed("one"), quiet=False)

    def test_quiet_too_late(self) -> None:
        story = Story().committed("one")
        for what in SETTLING:
            story.add("settled", what=what, after=31.0)
        self.assert_fires("quiet afterwards", story, quiet=False)

    def test_the_process_grows(self) -> None:
        for what, value in (("rss_kib", 999_999), ("threads", 200), ("files", 1000)):
            story = Story().committed("one")
            story.verdict()
            story.events[-1][what] = value
            verdict = check(story.events)
            self.assertEqual([violation.rule for violation in verdict.violations], ["resources"])
        self.fired.add("resources")

    def heuristic(self, **fault: Any) -> Story:
        story = Story().committed("one").intent("two", *BOTH).begun("two")
        story.answer("two", "HEURISTIC",
                     branches={"a": ["COMMITTED", "lane-a"], "b": ["ABORTED", "lane-b"]})
        story.read("two", "a", "data", 0, 0).add("final", t="two", state="HEURISTIC")
        return story.add("fault", kind="some", acted=True, load=99.0, **fault)

    def test_heuristic(self) -> None:
        rule = "heuristic only where allowed"
        times = {"from": 0.0, "to": 99.0}
        allowed: list[dict[str, Any]] = [{"ids": ["lane-b"], **times}, {"outage": True, **times}]
        for fault in allowed:
            story = self.heuristic(**fault)
            self.assert_fires(rule, story)  # Nobody was told.
            self.assertEqual(story.add("reported", txns=["id-two"]).verdict().violations, [])
        not_allowed: list[dict[str, Any]] = [
            dict(times), {"ids": ["lane-c"], **times}, {"outage": True, "from": 90, "to": 99}]
        for fault in not_allowed:
            self.assert_fires(rule, self.heuristic(**fault).add("reported", txns=["id-two"]))

    def test_an_end_that_nobody_caused(self) -> None:
        story = Story().committed("one").add("died", who="lockstepd", status="signal 6")
        self.assert_fires("nobody dies by itself", story)

    def test_zz_every_rule_has_fired(self) -> None:
        self.assertEqual(self.fired, set(RULES))


class ValidityTest(unittest.TestCase):
    def test_a_run_that_proves_nothing(self) -> None:
        times = {"from": 0.0, "to": 1.0}
        story = Story().committed("one").add("fault", kind="kill", acted=True, load=80, kills=1, **times)
        self.assertEqual(story.verdict(Limits(faults=("kill",), kills=1)).invalid, [])
        self.assertEqual(len(story.verdict(Limits(kills=2)).invalid), 1)
        self.assertEqual(len(story.verdict(Limits(faults=("reset",))).invalid), 1)
        story.add("fault", kind="reset", acted=False, load=80, **times)
        self.assertEqual(len(story.verdict(Limits(faults=("reset",))).invalid), 1)
        story.add("fault", kind="reset", acted=True, load=49, **times)
        self.assertEqual(len(story.verdict(Limits(faults=("reset",))).invalid), 1)
        self.assertEqual(len(Story().aborted("one").verdict().invalid), 1)


class HistoryTest(unittest.TestCase):
    def test_what_is_written_is_read_and_a_torn_line_is_not(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            history = History(Path(folder), "one")
            history.write("begun", t="x", id="y")
            with (Path(folder) / "one.jsonl").open("ab") as file:
                file.write(b'{"e":"answ')
            self.assertEqual([(e["e"], e["t"]) for e in events(Path(folder))], [("begun", "x")])


if __name__ == "__main__":
    unittest.main()
