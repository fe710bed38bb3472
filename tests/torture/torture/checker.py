"""Judges a history (history.py): what was promised, and what readers saw. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Iterable, Iterator, Sequence

from .history import Event

Place = tuple[str, str, int, int]  # cluster, topic, partition, index in the transaction

_FINAL = {"COMMITTED", "ABORTED", "HEURISTIC"}
_STEPS = {"COMMITTING": "COMMITTED", "ABORTING": "ABORTED"}
KEYED = ("execute", "bank")
SETTLING = ("nothing in doubt", "nothing ongoing", "readers at the end", "a new transaction")


@dataclass(frozen=True)
class Limits:
    load: float = 50.0  # transactions per second before a fault, or it proves nothing
    settle: float = 30.0  # seconds from the last fault until everything is quiet
    settle_soft: float = 10.0  # the goal; beyond it is told
    rss_kib: int = 96 * 1024  # more than at the beginning
    threads: int = 24
    files: int = 64
    plain_topics: frozenset[str] = frozenset({"source"})  # written outside of transactions
    faults: tuple[str, ...] = ()  # kinds of which each must have acted
    kills: int = 0  # of lockstepd, at least


@dataclass(frozen=True)
class Violation:
    rule: str
    text: str


@dataclass
class Verdict:
    violations: list[Violation] = field(default_factory=list)
    invalid: list[str] = field(default_factory=list)  # why the run proves nothing
    notes: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


@dataclass
class Answer:
    at: float
    asked: float
    op: str
    outcome: str


@dataclass
class Txn:
    name: str
    client: str
    mode: str
    at: float
    writes: frozenset[Place]
    money: dict[int, int]
    sources: list[tuple[int, int]]
    id: str = ""
    answers: list[Answer] = field(default_factory=list)
    asked: list[float] = field(default_factory=list)  # when its end was asked for
    branches: dict[str, list[str]] = field(default_factory=dict)  # cluster: outcome, id
    final: str = ""
    seen: dict[Place, int] = field(default_factory=dict)  # offsets

    @property
    def keyed(self) -> bool:
        """One whose ABORTED only means: not yet."""
        return self.mode in KEYED

    def outcomes(self) -> set[str]:
        heard = [answer.outcome for answer in self.answers] + [self.final]
        told = set(heard) & _FINAL
        for outcome in heard:
            # COMMITTING is not an outcome yet: where Kafka breaks its promise, HEURISTIC is.
            if not (outcome == "COMMITTING" and "HEURISTIC" in told):
                told |= {_STEPS.get(outcome, outcome)} & _FINAL
        if self.keyed and "COMMITTED" in told:
            told.discard("ABORTED")
        return told

    @property
    def outcome(self) -> str:
        """Empty: not known, or contradicted."""
        told = self.outcomes()
        if "HEURISTIC" in told:
            return "HEURISTIC"
        return next(iter(told)) if len(told) == 1 else ""

    def committed_at(self) -> float | None:
        return min((a.at for a in self.answers if a.outcome == "COMMITTED"), default=None)


def unknown_keys(history: Sequence[Event]) -> dict[str, Event]:
    """The intents of those whose last word nobody heard. An ABORTED is the last only if nobody has asked
    again since: under its key a transaction may commit after it."""
    intents: dict[str, Event] = {}
    for event in history:
        if event["e"] == "intent" and event["mode"] in KEYED:
            intents[event["t"]] = event
    waiting: Counter[str] = Counter()
    told: dict[str, set[str]] = defaultdict(set)
    for event in history:
        if event["e"] == "ask":
            waiting[event["t"]] += 1
        elif event["e"] == "answer":
            waiting[event["t"]] -= 1
            told[event["t"]].add(event["outcome"])
    return {name: intent for name, intent in intents.items()
            if not told[name] & {"COMMITTED", "HEURISTIC"}
            and (waiting[name] or told[name] != {"ABORTED"})}


class Run:
    """The history by transactions."""

    def __init__(self, events: Iterable[Event], limits: Limits) -> None:
        self.limits = limits
        self.txns: dict[str, Txn] = {}
        self.at: dict[tuple[str, str, int, int], tuple[str, int]] = {}  # what stands at an offset
        self.changed: list[str] = []
        self.twice: list[str] = []
        self.strangers: list[str] = []
        self.others: dict[str, list[Event]] = defaultdict(list)
        all_events = list(events)  # In the order of files, not of time: who meant what comes first.
        for event in all_events:
            if event["e"] == "intent":
                self._intent(event)
        for event in all_events:
            if event["e"] == "read":
                self._read(event)
            elif "t" in event:
                self._client(event)
            else:
                self.others[event["e"]].append(event)

    def _intent(self, event: Event) -> None:
        self.txns[event["t"]] = Txn(
            event["t"], event["client"], event["mode"], event["at"],
            frozenset((c, topic, p, i) for c, topic, p, i in event["writes"]),
            {int(i): change for i, change in event.get("money", {}).items()},
            [(p, offset) for p, offset in event.get("sources", [])])

    def _client(self, event: Event) -> None:
        kind, txn = event["e"], self.txns[event["t"]]
        if kind == "begun":
            txn.id = event["id"]
        elif kind == "ask" and event["op"] != "get":
            txn.asked.append(event["at"])
        elif kind == "answer":
            txn.answers.append(Answer(event["at"], event.get("asked") or event["at"], event["op"],
                                      event["outcome"]))
            txn.branches.update(event.get("branches", {}))
        elif kind == "final":
            txn.final = _STEPS.get(str(event["state"]), str(event["state"]))
            txn.branches.update(event.get("branches", {}))

    def _read(self, event: Event) -> None:
        cluster, topic, partition = event["c"], event["topic"], event["p"]
        for offset, name, index, _ in event["records"]:
            where = f"{topic}-{partition}@{offset} on {cluster}"
            before = self.at.setdefault((cluster, topic, partition, offset), (name, index))
            if before != (name, index):
                self.changed.append(f"{where} was {before}, then {(name, index)}")
            if topic in self.limits.plain_topics:
                continue
            txn = self.txns.get(name)
            place = (cluster, topic, partition, index)
            if txn is None or place not in txn.writes:
                self.strangers.append(f"{where}: {name} {index} was never meant to be there")
            elif txn.seen.setdefault(place, offset) != offset:
                self.twice.append(f"{where}: {name} {index} stands at {txn.seen[place]} too")

    def heuristic(self, txn: Txn) -> bool:
        return txn.outcome == "HEURISTIC"


# ---- The rules: each yields what is wrong ------------------------------------------------------------


def _torn(run: Run) -> Iterator[str]:
    for txn in run.txns.values():
        if run.heuristic(txn):
            for cluster, (outcome, *_) in txn.branches.items():
                there = {place for place in txn.writes if place[0] == cluster}
                seen = there & txn.seen.keys()
                if (outcome == "COMMITTED" and seen != there) or (outcome == "ABORTED" and seen):
                    yield (f"{txn.name} is {outcome} on {cluster}, and {len(seen)} of {len(there)} "
                           f"records are there")
        elif 0 < len(txn.seen) < len(txn.writes):
            missing = sorted(txn.writes - txn.seen.keys())
            yield f"{txn.name} ({txn.mode}, {txn.id}, {txn.outcome or '?'}) lacks {missing}"


def _lost(run: Run) -> Iterator[str]:
    for txn in run.txns.values():
        if txn.outcome == "COMMITTED" and len(txn.seen) < len(txn.writes):
            yield f"{txn.name} ({txn.mode}, {txn.id}) is COMMITTED: {len(txn.seen)} of {len(txn.writes)}"


def _aborted_read(run: Run) -> Iterator[str]:
    for txn in run.txns.values():
        if txn.seen and txn.outcome == "ABORTED":
            yield f"{txn.name} ({txn.mode}, {txn.id}) is ABORTED, and {sorted(txn.seen)} are read"
        elif txn.seen and not txn.asked:
            yield f"{txn.name} ({txn.mode}, {txn.id}) was never asked to commit, and is read"


def _changed_decision(run: Run) -> Iterator[str]:
    for txn in run.txns.values():
        if len(txn.outcomes()) > 1:
            yield f"{txn.name} ({txn.mode}, {txn.id}) is {sorted(txn.outcomes())}"
        for answer in txn.answers if txn.keyed else ():
            if answer.outcome == "ABORTED" and answer.asked > (txn.committed_at() or answer.asked):
                yield f"{txn.name}: its key had committed, and ran again"


def _unresolved(run: Run) -> Iterator[str]:
    for txn in run.txns.values():
        if (txn.id or (txn.keyed and txn.asked)) and not txn.outcomes():
            yield f"{txn.name} ({txn.mode}, {txn.id}): its outcome never became known"
        elif not txn.keyed and txn.id and txn.final not in _FINAL:
            yield f"{txn.name} ({txn.mode}, {txn.id}) has no final outcome: {txn.final or 'not asked'}"


def _duplicate(run: Run) -> Iterator[str]:
    yield from run.twice


def _changed_record(run: Run) -> Iterator[str]:
    yield from run.changed


def _stranger(run: Run) -> Iterator[str]:
    yield from run.strangers


def _order(run: Run) -> Iterator[str]:
    """Within a transaction by index; and of a client, a transaction that was answered COMMITTED stands
    before all that the client began after the answer."""
    clients: dict[str, list[Txn]] = defaultdict(list)
    for txn in run.txns.values():
        by_partition: dict[tuple[str, str, int], list[tuple[int, int]]] = defaultdict(list)
        for (cluster, topic, partition, index), offset in txn.seen.items():
            by_partition[cluster, topic, partition].append((index, offset))
        for where, records in by_partition.items():
            if sorted(records) != sorted(records, key=lambda record: record[1]):
                yield f"{txn.name} is out of order in {where}: {sorted(records)}"
        if txn.seen:
            clients[txn.client].append(txn)
    for txns in clients.values():
        yield from _order_of_client(txns)


def _order_of_client(txns: list[Txn]) -> Iterator[str]:
    answered = sorted((at, txn.name, txn) for txn in txns if (at := txn.committed_at()) is not None)
    last: dict[tuple[str, str, int], tuple[int, str]] = {}
    for txn in sorted(txns, key=lambda one: one.at):
        while answered and answered[0][0] < txn.at:
            _, _, earlier = answered.pop(0)
            for (cluster, topic, partition, _), offset in earlier.seen.items():
                where = (cluster, topic, partition)
                last[where] = max(last.get(where, (-1, "")), (offset, earlier.name))
        for (cluster, topic, partition, _), offset in txn.seen.items():
            before = last.get((cluster, topic, partition), (-1, ""))
            if offset < before[0]:
                yield (f"{txn.name} at {offset} of {topic}-{partition} on {cluster} stands before "
                       f"{before[1]} at {before[0]}, which had committed before it began")


def _bank(run: Run) -> Iterator[str]:
    total = sum(txn.money.get(index, 0) for txn in run.txns.values() if not run.heuristic(txn)
                for _, _, _, index in txn.seen)
    if total != 0:
        yield f"all accounts together have {total}, not 0"


def _copied(run: Run) -> Iterator[str]:
    """A group's committed offset says exactly what was copied, but for what is HEURISTIC."""
    copies: Counter[tuple[int, int]] = Counter()
    torn = {source for txn in run.txns.values() if run.heuristic(txn) for source in txn.sources}
    for txn in run.txns.values():
        if txn.sources:
            copies.update(txn.sources[index] for _, _, _, index in txn.seen)
    for source, count in copies.items():
        if count > 1 and source not in torn:
            yield f"record {source} was copied {count} times"
    for event in run.others["group"]:
        cluster, topic, partition, end = event["c"], event["topic"], event["p"], event["offset"]
        there = {o for c, t, p, o in run.at if (c, t, p) == (cluster, topic, partition)
                 and (p, o) not in torn}
        copied = {o for p, o in copies if p == partition}
        if missing := sorted(o for o in there if o < end and o not in copied):
            yield (f"the group's offset of {topic}-{partition} is {end}, and {len(missing)} records "
                   f"before it were not copied, such as {missing[:5]}")
        if early := sorted(o for o in copied if o >= end and (partition, o) not in torn):
            yield (f"the group's offset of {topic}-{partition} is {end}, and {len(early)} records "
                   f"behind it were copied, such as {early[:5]}")


def _quiet(run: Run) -> Iterator[str]:
    for event in run.others["unsettled"]:
        yield f"{event['what']}: not within {run.limits.settle:.0f} s of the last fault: {event['message']}"
    told = {event["what"]: event["after"] for event in run.others["settled"]}
    unsettled = {event["what"] for event in run.others["unsettled"]}
    for what in SETTLING:
        if what not in told and what not in unsettled:
            yield f"{what}: nobody looked"
        elif told.get(what, 0) > run.limits.settle:
            yield f"{what}: only {told[what]:.1f} s after the last fault"


def _resources(run: Run) -> Iterator[str]:
    by_time = {event["when"]: event for event in run.others["process"]}
    before, after = by_time.get("begin"), by_time.get("end")
    if before is None or after is None:
        yield "nobody looked at the process"
        return
    for what in ("rss_kib", "threads", "files"):
        allowed = before[what] + getattr(run.limits, what)
        if after[what] > allowed:
            yield f"{what}: {before[what]} at the beginning, {after[what]} at the end"


def _heuristic(run: Run) -> Iterator[str]:
    """Only where an operator ended it, or an outage was longer than the reserve; and then reported."""
    ended = {id for event in run.others["fault"] for id in event.get("ids", [])}
    outages = [(e["from"], e["to"]) for e in run.others["fault"] if e.get("outage")]
    reported = {name for event in run.others["reported"] for name in event["txns"]}
    for txn in run.txns.values():
        if not run.heuristic(txn):
            continue
        own = {words[1] for words in txn.branches.values() if len(words) > 1}
        end = max((a.at for a in txn.answers if a.outcome == "HEURISTIC"), default=float("inf"))
        if not own & ended and not any(begin <= end and txn.at <= until for begin, until in outages):
            yield f"{txn.name} ({txn.mode}, {txn.id}) is HEURISTIC without cause: {txn.branches}"
        if txn.id not in reported:
            yield f"{txn.name} ({txn.mode}, {txn.id}) is HEURISTIC, and nobody was told"


def _died(run: Run) -> Iterator[str]:
    for event in run.others["died"]:
        yield f"{event['who']} ended by itself: {event['status']}"


RULES = {
    "all or nothing": _torn,
    "no commit is lost": _lost,
    "no aborted record is read": _aborted_read,
    "decisions are final": _changed_decision,
    "every outcome becomes known": _unresolved,
    "no duplicate": _duplicate,
    "records do not change": _changed_record,
    "no stranger": _stranger,
    "order": _order,
    "the bank's total": _bank,
    "offsets agree with records": _copied,
    "quiet afterwards": _quiet,
    "resources": _resources,
    "heuristic only where allowed": _heuristic,
    "nobody dies by itself": _died,
}


def _judge_validity(run: Run, verdict: Verdict) -> None:
    limits = run.limits
    faults = run.others["fault"]
    for event in faults:
        verdict.counts[f"fault {event['kind']}{'' if event['acted'] else ' (missed)'}"] += 1
        if event["load"] < limits.load:
            verdict.invalid.append(f"{event['kind']} came at a load of {event['load']:.0f}/s")
    for kind in limits.faults:
        if not any(event["kind"] == kind and event["acted"] for event in faults):
            verdict.invalid.append(f"{kind} never acted")
    kills = sum(event.get("kills", 0) for event in faults)
    verdict.counts["kills of lockstepd"] = kills
    if kills < limits.kills:
        verdict.invalid.append(f"lockstepd was killed {kills} times, not {limits.kills}")
    if not any(txn.outcome == "COMMITTED" for txn in run.txns.values()):
        verdict.invalid.append("nothing was committed")


def check(events: Iterable[Event], limits: Limits = Limits()) -> Verdict:
    run = Run(events, limits)
    verdict = Verdict()
    for rule, function in RULES.items():
        verdict.violations += [Violation(rule, text) for text in function(run)]
    for txn in run.txns.values():
        verdict.counts[f"{txn.mode} {txn.outcome or 'not begun'}"] += 1
    verdict.counts["records read"] = len(run.at)
    for event in run.others["settled"]:
        if event["after"] > limits.settle_soft:
            verdict.notes.append(f"{event['what']}: {event['after']:.1f} s after the last fault")
    _judge_validity(run, verdict)
    return verdict
