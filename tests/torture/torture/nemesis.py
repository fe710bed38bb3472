"""Faults, one after the other, each under load."""

from __future__ import annotations

import random
import signal
import time
from dataclasses import dataclass
from typing import Any, Callable

from local_kafka.basics import Failure
from local_kafka.cluster import Cluster

from . import broker
from .crew import Crew
from .history import History
from .proxy import Proxy
from .server import Server, await_condition, failpoint_under_load

TRANSACTION_TIMEOUT = 20.0  # of Kafka, for all producers
_LOG_FAILED = (3, 4)  # lockstepd's exit codes where its disk is spoilt
_LOAD_WITHIN = 45.0  # seconds, after a fault

_IN_RECOVERY = ("recovery.log_opened", "lane.before_init", "lane.after_init", "fence.before",
                "fence.after")
_RESOLVING = ("resolver.before_end_txn", "resolver.after_end_txn", "resolver.concluded")
# A lane aborts only where one cluster refuses what others have prepared.
_SELDOM = ("lane.before_abort", "lane.after_abort")


@dataclass
class Acted:
    """What became of a fault."""
    acted: bool
    detail: str = ""
    kills: int = 0  # of lockstepd
    ids: tuple[str, ...] = ()
    outage: bool = False


class Nemesis:
    def __init__(self, server: Server, crew: Crew, clusters: dict[str, Cluster],
                 proxies: dict[str, list[Proxy]], history: History, chance: random.Random,
                 load: float, only: list[str]) -> None:
        self.server, self.crew, self.clusters, self.proxies = server, crew, clusters, proxies
        self.history, self.chance = history, chance
        self._least_load = load
        # How often each comes in a round.
        self.faults: dict[Callable[[], Acted], int] = {
            self.kill: 4, self.kill_in_recovery: 2, self.crash_at_failpoint: 3,
            self.crash_in_recovery: 2, self.crash_while_resolving: 2,
            self.recover_without_ends: 2, self.pause: 1,
            self.kill_clients: 2, self.kill_broker: 1, self.kill_both_brokers: 1,
            self.blackhole: 1, self.reset: 1, self.delay: 1, self.half_open: 1,
            self.lose_answers: 2, self.hold_ends: 2, self.double_ends: 2,
            self.disk_full: 1, self.disk_bad: 1, self.disk_slow: 1, self.operator: 1,
        }
        if only:
            known = [*self.faults, self.pause_beyond_timeout]
            if wrong := set(only) - {self.name(fault) for fault in known}:
                raise Failure(f"no such fault: {', '.join(wrong)}; there are: "
                              f"{', '.join(map(self.name, known))}")
            self.faults = {fault: 1 for fault in known if self.name(fault) in only}

    @staticmethod
    def name(fault: Callable[[], Acted]) -> str:
        return fault.__name__.replace("_", " ")

    def run(self, seconds: float) -> None:
        """All of them in each round, in an order of its own."""
        end = time.monotonic() + seconds
        # There is time for the one long pause.
        pausing = seconds > 100 and self.kill in self.faults
        while True:
            faults = [fault for fault, times in self.faults.items() for _ in range(times)]
            self.chance.shuffle(faults)
            if pausing:
                faults.insert(min(8, len(faults)), self.pause_beyond_timeout)
                pausing = False
            for fault in faults:
                if time.monotonic() > end:
                    return
                self.strike(fault)

    def strike(self, fault: Callable[[], Acted]) -> None:
        load = self._await_load()
        begin = time.monotonic()
        what = fault()
        self.history.write("fault", kind=self.name(fault), acted=what.acted, load=load,
                           detail=what.detail, kills=what.kills, ids=what.ids, outage=what.outage,
                           **{"from": begin, "to": time.monotonic()})
        print(f"  {self.name(fault):22} {'' if what.acted else 'MISSED '}{what.detail}"
              f"  ({load:.0f}/s before)", flush=True)

    def _await_load(self) -> float:
        deadline = time.monotonic() + _LOAD_WITHIN
        enough = self._least_load * self.chance.uniform(1.0, 1.6)
        while (load := self.crew.load()) < enough and time.monotonic() < deadline:
            self.look_after_server()
            time.sleep(0.02)
        return load

    def look_after_server(self) -> None:
        if not self.server.alive():
            assert self.server.process is not None
            self.history.write("died", who="lockstepd", status=self.server.process.returncode)
            self.server.start()

    def _sleep(self, least: float, most: float) -> float:
        seconds = self.chance.uniform(least, most)
        time.sleep(seconds)
        return seconds

    def _cluster(self) -> str:
        return self.chance.choice("ab")

    # ---- lockstepd ------------------------------------------------------------------------------------

    def kill(self) -> Acted:
        killed = self.server.kill()
        self.server.start()
        return Acted(killed, kills=1)

    def kill_in_recovery(self) -> Acted:
        killed = self.server.kill()
        self.server.start(wait=False)
        slept = self._sleep(0.02, 0.6)
        again = self.server.kill()
        self.server.start()
        return Acted(killed and again, f"after {slept:.2f} s", kills=2)

    def _crash(self, *failpoints: str, within: float) -> Acted:
        """Starts it so that it crashes."""
        self.server.start(*failpoints, wait=False)
        status = self.server.await_end(within)
        if status is None:
            self.server.kill()
        return Acted(status == -signal.SIGKILL, " ".join(failpoints), kills=1)

    def crash_at_failpoint(self) -> Acted:
        self.server.kill()
        points = [point for point in self.server.failpoints
                  if point not in (*_IN_RECOVERY, *_RESOLVING, *_SELDOM)]
        crash = self._crash(failpoint_under_load(self.chance.choice(points), self.chance), within=12)
        self.server.start()
        crash.kills += 1
        return crash

    def crash_in_recovery(self) -> Acted:
        self.server.kill()
        point = self.chance.choice(_IN_RECOVERY)
        crash = self._crash(f"{point}=crash#{self.chance.randint(1, 3) if point[0] != 'r' else 1}",
                            within=8)
        self.server.start()
        crash.kills += 1
        return crash

    def crash_while_resolving(self) -> Acted:
        """A crash that leaves something in doubt, and one more while that is resolved; then all else
        of a start may be faster than resolution."""
        self.server.kill()
        first = self._crash(f"coordinator.decision_durable=crash#{self.chance.randint(1, 40)}",
                            within=12)
        crash = self._crash(f"{self.chance.choice(_RESOLVING)}=crash", within=8)
        self.server.start(*self.chance.choice([[], ["resolver.before_end_txn=delay:200"]]))
        return Acted(first.acted and crash.acted, crash.detail, kills=3)

    def recover_without_ends(self) -> Acted:
        """A crash that leaves something in doubt, and a start in which no EndTxn comes through at
        first: whatever else a start does must leave what is decided alone."""
        self.server.kill()
        crash = self._crash(f"coordinator.decision_durable=crash#{self.chance.randint(1, 40)}",
                            within=12)
        for proxy in self._all_proxies():
            proxy.hold_ends(1 << 20)
        held = self._all_held()
        self.server.start()
        slept = self._sleep(0.5, 2.5)
        for proxy in self._all_proxies():
            proxy.heal()
        held = self._all_held() - held
        await_condition("late requests to be delivered", 30,
                        lambda: not any(proxy.held() for proxy in self._all_proxies()))
        for proxy in self._all_proxies():
            proxy.late.clear()
        return Acted(crash.acted and held > 0, f"{held} held in {slept:.1f} s", kills=2)

    def _all_proxies(self) -> list[Proxy]:
        return [proxy for proxies in self.proxies.values() for proxy in proxies]

    def _all_held(self) -> int:
        return sum(proxy.acted["held"] for proxy in self._all_proxies())

    def _pause(self, seconds: float) -> str:
        assert self.server.process is not None
        self.server.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.server.process.send_signal(signal.SIGCONT)
        return f"{seconds:.1f} s"

    def pause(self) -> Acted:
        return Acted(True, self._pause(self.chance.uniform(0.3, 3)))

    def pause_beyond_timeout(self) -> Acted:
        return Acted(True, self._pause(TRANSACTION_TIMEOUT + 2), outage=True)

    # ---- Its disk ---------------------------------------------------------------------------------------

    def _disk_fails(self, how: str) -> Acted:
        self.server.spoil_disk(how)
        status = self.server.await_end(10)
        self.server.mend_disk()
        if status is None:
            self.server.kill()
        self.server.start()
        return Acted(status in _LOG_FAILED, f"exit {status}")

    def disk_full(self) -> Acted:
        return self._disk_fails("full")

    def disk_bad(self) -> Acted:
        return self._disk_fails("bad")

    def disk_slow(self) -> Acted:
        self.server.spoil_disk("slow")
        slept = self._sleep(1, 3)
        self.server.mend_disk()
        return Acted(self.server.alive(), f"{slept:.1f} s")

    # ---- Clients and brokers ----------------------------------------------------------------------------

    def kill_clients(self) -> Acted:
        killed = self.crew.kill_some(self.chance)
        return Acted(bool(killed), " ".join(killed))

    def _kill_brokers(self, names: str) -> Acted:
        victims = [(self.clusters[name], [self.chance.choice(self.clusters[name].nodes)])
                   for name in names]
        if len(names) > 1:
            victims = [(cluster, cluster.nodes) for cluster, _ in victims]
        for cluster, nodes in victims:
            cluster.kill(nodes)
        down = self._sleep(0, 1.5)
        for cluster, nodes in victims:
            cluster.start(nodes)
        for cluster, nodes in victims:
            cluster.await_serving(nodes, 60)
        return Acted(True, f"{names}, {down:.1f} s and a start")

    def kill_broker(self) -> Acted:
        return self._kill_brokers(self._cluster())

    def kill_both_brokers(self) -> Acted:
        return self._kill_brokers("ab")

    def operator(self) -> Acted:
        """Ends what is open under some lanes' ids with a tool of Kafka's own."""
        name = self._cluster()
        ended = []
        for node in self.clusters[name].nodes:
            for id, state in broker.open_transactions(node.port).items():
                if id.startswith("lockstep-") and state == "Ongoing":
                    broker.fence(node.port, id)
                    ended.append(id)
        return Acted(bool(ended), f"{len(ended)} on {name}", ids=tuple(ended))

    # ---- The network ------------------------------------------------------------------------------------

    def _count(self, name: str, what: str) -> int:
        return sum(proxy.acted[what] for proxy in self.proxies[name])

    def _on_network(self, what: str, do: Callable[[Proxy], Any], least: float, most: float,
                    until_count: bool = False) -> Acted:
        name = self._cluster()
        before = self._count(name, what)
        for proxy in self.proxies[name]:
            do(proxy)
        slept = self._sleep(least, most)
        deadline = time.monotonic() + 5
        while until_count and self._count(name, what) == before and time.monotonic() < deadline:
            time.sleep(0.02)
        for proxy in self.proxies[name]:
            proxy.heal()
        acted = self._count(name, what) - before
        return Acted(acted > 0, f"on {name}, {acted} in {slept:.1f} s")

    def blackhole(self) -> Acted:
        return self._on_network("blackhole", Proxy.blackhole, 0.3, 5)

    def reset(self) -> Acted:
        return self._on_network("reset", Proxy.reset, 0, 0.2)

    def delay(self) -> Acted:
        seconds = self.chance.uniform(0.005, 0.1)
        return self._on_network("delay", lambda proxy: proxy.delay(seconds), 1, 3)

    def half_open(self) -> Acted:
        return self._on_network("half-open", Proxy.half_open, 0, 2)

    def lose_answers(self) -> Acted:
        count = self.chance.randint(1, 6)
        return self._on_network("answers lost", lambda proxy: proxy.lose_answers(count), 0.2, 1, True)

    def hold_ends(self) -> Acted:
        return self._late_ends("held", Proxy.hold_ends)

    def double_ends(self) -> Acted:
        return self._late_ends("doubled", Proxy.double_ends)

    def _late_ends(self, what: str, do: Callable[[Proxy, int], None]) -> Acted:
        count = self.chance.randint(1, 4)
        acted = self._on_network(what, lambda proxy: do(proxy, count), 0.2, 1, True)
        name = "a" if acted.detail.startswith("on a") else "b"
        await_condition("late requests to be delivered", 30,
                        lambda: not any(proxy.held() for proxy in self.proxies[name]))
        late = [code for proxy in self.proxies[name] for _, code in proxy.late]
        for proxy in self.proxies[name]:
            proxy.late.clear()
        acted.detail += f", answers {late}"
        return acted
