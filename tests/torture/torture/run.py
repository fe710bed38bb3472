"""One run: clusters, lockstepd, clients, faults, quiet, verdict."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Callable

sys.dont_write_bytecode = True
ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "torture"), str(ROOT / "scripts" / "lib")]
# pylint: disable=wrong-import-position
import confluent_kafka  # noqa: E402
import lockstep  # noqa: E402
from local_kafka.basics import Failure, in_parallel, reserve_ports  # noqa: E402
from local_kafka.cluster import Cluster, Options, prepare  # noqa: E402
from local_kafka.protocol import Topic  # noqa: E402
from local_kafka.release import Release  # noqa: E402
from torture import broker  # noqa: E402
from torture.checker import KEYED, SETTLING, Limits, Verdict, check, unknown_keys  # noqa: E402
from torture.crew import Crew  # noqa: E402
from torture.history import Event, History, events  # noqa: E402
from torture.nemesis import TRANSACTION_TIMEOUT, Nemesis  # noqa: E402
from torture.proxy import Loop, Proxy  # noqa: E402
from torture.server import Server, await_condition  # noqa: E402
from torture.worker import branches_of, value_of, work_of  # noqa: E402

PARTITIONS = 4
TOPICS = {"a": ["data", "bank", "source"], "b": ["data", "bank", "copies"]}
SETTINGS = "timeouts:\n  deadline_margin: 10s\n  prepare: 10s\n"
# A broker that is dead is known to be, and a client's session ends, in time.
PROPERTIES = {"broker.session.timeout.ms": "1500", "group.min.session.timeout.ms": "1000"}
WARM = 4.0  # seconds of load before the first fault


def start_clusters(folder: Path, kafka: str, nodes: dict[str, int], expiry: float,
                   at_the_end: ExitStack) -> dict[str, Cluster]:
    release = Release(kafka)
    prepare(release)
    clusters = {}
    for name, count in nodes.items():
        properties = dict(PROPERTIES)
        if expiry:
            properties.update({
                "transactional.id.expiration.ms": str(int(1000 * expiry)),
                "transaction.remove.expired.transaction.cleanup.interval.ms": "500"})
        if count > 1:
            for topic in ("offsets.topic", "transaction.state.log"):
                properties[f"{topic}.replication.factor"] = str(count)
            properties.update({"transaction.state.log.min.isr": "2", "min.insync.replicas": "2",
                               "default.replication.factor": str(count)})
        clusters[name] = Cluster.create(folder, name, release,
                                        Options(nodes=count, properties=properties, gate=True))
        at_the_end.callback(clusters[name].kill, clusters[name].nodes)
        clusters[name].start(clusters[name].nodes)
    return clusters


def serve_clusters(clusters: dict[str, Cluster]) -> None:
    def serve(cluster: Cluster) -> None:
        cluster.await_serving(cluster.nodes, 120)
        cluster.create_topics([Topic(topic, PARTITIONS) for topic in TOPICS[cluster.name]])

    in_parallel(serve, [(cluster,) for cluster in clusters.values()])


def build_disk(folder: Path) -> Path:
    library = folder / "full_disk.so"
    subprocess.run(["c++", "-std=c++20", "-shared", "-fPIC", "-o", str(library),
                    str(ROOT / "tests/support/full_disk/full_disk.cc"), "-ldl"], check=True)
    return library


class Torture:
    def __init__(self, args: argparse.Namespace, folder: Path, at_the_end: ExitStack) -> None:
        self.args, self.folder = args, folder
        self.history = History(folder / "history", "run")
        self.clusters = start_clusters(folder / "clusters", args.kafka,
                                       {"a": 1, "b": 3 if args.larger else 1}, args.expiry, at_the_end)
        loop = Loop()
        self.proxies = {name: [Proxy(loop, node.gate_port or 0, node.gated_port or 0)
                               for node in cluster.nodes]
                        for name, cluster in self.clusters.items()}
        serve_clusters(self.clusters)
        gates = {name: ",".join(f"127.0.0.1:{node.gate_port}" for node in cluster.nodes)
                 for name, cluster in self.clusters.items()}
        self.server = Server(folder, args.lockstepd, args.lockstepctl, reserve_ports(1, folder)[0],
                             gates, SETTINGS, build_disk(folder))
        at_the_end.callback(self.server.kill)
        self.server.start()
        self.client = lockstep.Client(self.server.address)
        self.crew = Crew(folder, {
            "server": self.server.address, "history": str(folder / "history"),
            "counters": str(folder / "counters"), "topics": TOPICS, "partitions": PARTITIONS,
            "transaction_timeout_ms": int(TRANSACTION_TIMEOUT * 1000), "feed_every": 0.02,
            "managed_clients": 10, "own_clients": 4, "bank_clients": 6,
            "clusters": {name: {"direct": cluster.bootstrap, "gate": gates[name]}
                         for name, cluster in self.clusters.items()},
        }, self.history, args.seed)
        at_the_end.callback(self.crew.kill_all)

    def run(self) -> None:
        self.crew.start()
        await_condition("load", 60, lambda: self.crew.load() > self.args.load)
        time.sleep(WARM)
        self.history.write("process", when="begin", **self.server.resources())
        nemesis = Nemesis(self.server, self.crew, self.clusters, self.proxies, self.history,
                          random.Random(self.args.seed), self.args.load, self.args.fault)
        nemesis.run(self.args.seconds)
        nemesis.look_after_server()
        self.settle()

    # ---- Afterwards -----------------------------------------------------------------------------------

    def settle(self) -> None:
        print("  the last fault is over", flush=True)
        healed = time.monotonic()
        self.history.write("healed")
        if late := self.crew.stop_workers(self.args.settle):
            print(f"  had to be killed: {' '.join(late)}")
        steps: dict[str, Callable[[], str]] = dict(zip(SETTLING, (
            self.in_doubt, self.ongoing, lambda: "", self.new_transaction)))
        steps.pop("readers at the end")
        for what, problem in steps.items():
            while (message := problem()) and time.monotonic() < healed + self.args.settle:
                time.sleep(0.05)
            self._settled(what, healed, message)
        # Clients that are gone may have left open what only Kafka's own timeout ends.
        while self.ongoing("own-") and time.monotonic() < healed + self.args.settle:
            time.sleep(0.1)
        self.execute_again()  # While somebody reads: they may commit now.
        lacking = self.crew.stop_readers()
        self._settled("readers at the end", healed, " ".join(lacking))
        self.ask_finals(healed)
        self.ask_groups()
        self.history.write("process", when="end", **self.server.resources())
        self.server.stop()

    def _settled(self, what: str, healed: float, message: str) -> None:
        after = round(time.monotonic() - healed, 2)
        if message:
            self.history.write("unsettled", what=what, message=message)
        else:
            self.history.write("settled", what=what, after=after)
        print(f"  {what}: {message or 'yes'} ({after:.1f} s after the last fault)", flush=True)

    def in_doubt(self) -> str:
        decisions = self.server.in_doubt()
        if decisions is None:
            return "lockstepd does not answer"
        return " ".join(decision["batch_id"] for decision in decisions
                        if decision["state"] != "TXN_STATE_HEURISTIC")

    def ongoing(self, prefix: str = "lockstep-") -> str:
        return " ".join(f"{id} {state} on {name}" for name, cluster in self.clusters.items()
                        for node in cluster.nodes
                        for id, state in broker.open_transactions(node.port).items()
                        if id.startswith(prefix))

    def new_transaction(self) -> str:
        name = f"last.{time.monotonic():.3f}"
        self.history.write("intent", t=name, client="last", mode="managed",
                           writes=[["a", "data", 0, 0], ["b", "data", 0, 1]])
        try:
            with self.client.transaction(timeout=10) as txn:
                self.history.write("begun", t=name, id=txn.id)
                txn.produce("a", "data", value_of(name, 0, 1), partition=0)
                txn.produce("b", "data", value_of(name, 1, 1), partition=0)
                self.history.write("ask", t=name, op="commit")
                result = txn.commit(timeout=10)
                self.history.write("answer", t=name, op="commit", outcome=result.outcome.value)
        except lockstep.LockstepError as failed:
            return str(failed)
        return "" if result.outcome is lockstep.Outcome.COMMITTED else str(result)

    def execute_again(self) -> None:
        """Every key whose outcome nobody was told."""
        intents = unknown_keys(list(events(self.folder / "history")))
        print(f"  executing {len(intents)} keys again", flush=True)
        for name, intent in intents.items():
            work = work_of(name, intent["writes"], intent["size"])
            key = lockstep.ExecuteKey(name, intent["key_time"])
            self.history.write("ask", t=name, op="execute")
            asked = time.monotonic()
            done = self.client.execute(work, key=key, label=name)
            self.history.write("begun", t=name, id=done.txn_id)
            self.history.write("answer", t=name, op="execute", asked=asked,
                               outcome=done.result.outcome.value,
                               branches=branches_of(done.result.branches))

    def ask_finals(self, healed: float) -> None:
        """What became of each other transaction, by lockstepd's word."""
        keyed: set[str] = set()
        ids: dict[str, str] = {}
        for event in events(self.folder / "history"):
            if event["e"] == "intent" and event["mode"] in KEYED:
                keyed.add(event["t"])
            elif event["e"] == "begun":
                ids[event["t"]] = event["id"]
        print(f"  asking for the outcomes of {len(ids.keys() - keyed)} transactions", flush=True)
        for name in ids.keys() - keyed:
            info = self.client.get_txn(ids[name])
            # One that its client has left alone ends with its timeout.
            while info.state is lockstep.TxnState.ACTIVE and time.monotonic() < healed + self.args.settle:
                time.sleep(0.1)
                info = self.client.get_txn(ids[name])
            self.history.write("final", t=name, state=info.state.value,
                               branches=branches_of(info.branches))
        heuristic = [txn for decision in self.server.in_doubt() or []
                     if decision["state"] == "TXN_STATE_HEURISTIC" for txn in decision["txn_ids"]]
        self.history.write("reported", txns=heuristic)

    def ask_groups(self) -> None:
        consumer = confluent_kafka.Consumer({
            "bootstrap.servers": self.clusters["a"].bootstrap, "group.id": "copiers"})
        wanted = [confluent_kafka.TopicPartition("source", p) for p in range(PARTITIONS)]
        for at in consumer.committed(wanted, timeout=20):
            self.history.write("group", c="a", group="copiers", topic="source", p=at.partition,
                               offset=max(at.offset, 0))
        consumer.close()


def limits_of(args: argparse.Namespace) -> Limits:
    wanted = args.fault or (("kill", "kill broker", "hold ends", "reset") if args.seconds > 100 else ())
    return Limits(load=args.load, settle=args.settle, kills=args.kills, faults=tuple(wanted))


def report(verdict: Verdict) -> int:
    for name, count in sorted(verdict.counts.items()):
        print(f"  {count:8}  {name}")
    for note in verdict.notes:
        print(f"  note: {note}")
    shown: dict[str, int] = {}
    for violation in verdict.violations:
        shown[violation.rule] = shown.get(violation.rule, 0) + 1
        if shown[violation.rule] <= 10:
            print(f"  VIOLATION, {violation.rule}: {violation.text}")
    for rule, count in shown.items():
        print(f"  {count} violations of: {rule}")
    for why in verdict.invalid:
        print(f"  INVALID: {why}")
    if verdict.violations:
        print("  FAILED")
        return 1
    print("  INVALID: this run proves nothing" if verdict.invalid else "  PASSED")
    return 2 if verdict.invalid else 0


def commit() -> str:
    git = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return git.stdout.decode().strip() or "unknown"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tests/torture/run", description="Real clients, real clusters, faults, and a verdict over "
        "the whole history. Exit status: 0 passed, 1 failed, 2 invalid: it proves nothing.")
    parser.add_argument("--seconds", type=float, default=150, help="of faults (150)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31),
                        help="of the order and kind of faults and of what clients do")
    parser.add_argument("--kafka", default="3.9.1", metavar="V", help="Kafka's version (3.9.1)")
    parser.add_argument("--larger", action="store_true", help="cluster b has three nodes")
    parser.add_argument("--expiry", type=float, default=0, metavar="SECONDS",
                        help="brokers forget a transactional.id that was idle so long (never)")
    parser.add_argument("--kills", type=int, default=0, metavar="N",
                        help="invalid unless lockstepd was killed so often")
    parser.add_argument("--load", type=float, default=50, metavar="TPS",
                        help="invalid if a fault came at less (50 transactions a second)")
    parser.add_argument("--fault", action="append", default=[], metavar="NAME",
                        help="only these kinds, as they are printed")
    parser.add_argument("--settle", type=float, default=30, metavar="SECONDS",
                        help="until everything must be quiet after the last fault (30)")
    parser.add_argument("--keep", action="store_true", help="keep the folder of a run that passed, too")
    parser.add_argument("--check", type=Path, metavar="FOLDER", help="only judge this history again")
    parser.add_argument("--lockstepd", default=str(ROOT / "build/debug/src/server/lockstepd"))
    parser.add_argument("--lockstepctl", default=str(ROOT / "build/debug/src/cli/lockstepctl"))
    args = parser.parse_args()
    for program in () if args.check else (args.lockstepd, args.lockstepctl):
        if shutil.which(program) is None:
            parser.error(f"no {program}")
    return args


def main() -> int:
    args = parse_arguments()
    if args.check:
        saved = json.loads((args.check / "arguments.json").read_text(encoding="utf-8"))
        return report(check(events(args.check / "history"), limits_of(argparse.Namespace(**saved))))
    folder = Path(tempfile.mkdtemp(prefix="lockstep-torture.", dir=os.environ.get("TMPDIR", "/var/tmp")))
    print(f"  torture {' '.join(sys.argv[1:])}: seed {args.seed}, Kafka {args.kafka}, commit {commit()}, "
          f"in {folder}", flush=True)
    saved = {key: value for key, value in vars(args).items() if key != "check"}
    (folder / "arguments.json").write_text(json.dumps({**saved, "commit": commit()}), encoding="utf-8")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    status = 1
    try:
        with ExitStack() as at_the_end:
            Torture(args, folder, at_the_end).run()
        status = report(check(events(folder / "history"), limits_of(args)))
    except (Failure, lockstep.LockstepError, confluent_kafka.KafkaException) as failure:
        print(f"  the run failed: {failure}")
    except KeyboardInterrupt:
        status = 130
    if status != 0 or args.keep:
        print(f"  Kept: {folder}. Judge it again: tests/torture/run --check {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
