"""Clusters: nodes as processes, their folders, and when they serve."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Callable, Sequence

from . import protocol, secure
from .basics import (HOST, Failure, await_condition, locked, random_kafka_uuid, reserve_ports, say,
                     write_atomically)
from .protocol import COORDINATOR_TOPICS, Topic
from .release import Release

_STOP_SECONDS = 5.0
_COORDINATOR_PARTITIONS = 4

# A quick start and small clusters. --property overrides any of them.
_NODE_DEFAULTS = {
    "auto.create.topics.enable": "false",
    "background.threads": "2",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "5000",
    "controlled.shutdown.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.index.size.max.bytes": "1048576",
    "num.io.threads": "4",
    "num.network.threads": "2",
    "offsets.topic.num.partitions": str(_COORDINATOR_PARTITIONS),
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": str(_COORDINATOR_PARTITIONS),
    "transaction.state.log.replication.factor": "1",
}


def _process_stat(pid: int) -> tuple[str, int] | None:
    """State and start time (clock ticks since boot) from proc(5); None if gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else (fields[0], int(fields[19]))


@dataclasses.dataclass
class Node:
    """One broker's process. It is known by its id, its start time and its configuration file."""
    id: int
    port: int
    controller_port: int | None  # node 1 only
    config: str
    log: str
    pid: int | None = None
    start_time: int | None = None
    gate_port: int | None = None  # advertised by its second listener; whoever is tested listens there
    gated_port: int | None = None  # where that listener is
    secure_ports: dict[str, int] = dataclasses.field(default_factory=dict)  # by the listener's name

    def roles(self) -> str:
        return "broker,controller" if self.controller_port else "broker"

    def state(self) -> str:
        stat = _process_stat(self.pid) if self.pid is not None else None
        if stat is None or stat[1] != self.start_time:
            return "stopped"
        return "paused" if stat[0] == "T" else "running"

    def alive(self) -> bool:
        return self.state() != "stopped"

    def started(self, pid: int) -> None:
        stat = _process_stat(pid)
        self.pid, self.start_time = pid, stat[1] if stat else None

    def signal(self, number: int) -> None:
        """Through a pidfd, after proof that the process is the one we started; else nothing."""
        try:
            if self.pid is None or not self.alive():
                return
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            command = Path(f"/proc/{self.pid}/cmdline").read_bytes().split(b"\0")
            if self.alive() and self.config.encode() in command:
                signal.pidfd_send_signal(handle, number)
        except (ProcessLookupError, FileNotFoundError):
            pass
        finally:
            os.close(handle)

    def log_tail(self) -> str:
        text = Path(self.log).read_text(errors="replace") if Path(self.log).exists() else ""
        lines = [f"  | {line}" for line in text.splitlines()[-25:]]
        return "\n".join(lines + [f"  (all of it: {self.log})"])


@dataclasses.dataclass
class Options:
    """What `start` was told about a cluster; kept in cluster.json for restart and wipe."""
    transaction_version: int | None = None  # None: the release's highest
    nodes: int = 1
    properties: dict[str, str] = dataclasses.field(default_factory=dict)
    heap: str = "384m"
    jit: str = "c1"
    coordinators_on: int | None = None
    gate: bool = False
    secure: bool = False


class Cluster:
    def __init__(self, root: Path, release: Release, cluster_id: str, options: Options,
                 nodes: list[Node]) -> None:
        self.root, self.release, self.cluster_id = root, release, cluster_id
        self.options, self.nodes = options, nodes

    @property
    def name(self) -> str:
        return self.root.name

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{node.port}" for node in self.nodes)

    def line(self) -> str:
        nodes = " ".join(f"{node.id}:{node.state()}({node.pid or '-'})" for node in self.nodes)
        return (f"{self.name}  {self.bootstrap}  Kafka {self.release.version}  "
                f"transaction.version {self.options.transaction_version}  "
                f"id {self.cluster_id}  {nodes}")

    # --- Its folder ---

    @staticmethod
    def create(directory: Path, name: str, release: Release, options: Options) -> Cluster:
        """Configured and formatted, not started. Needs the release's jars."""
        if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
            raise Failure(f"not a cluster name: {name} (lower case letters, digits, dashes)")
        versions = release.transaction_versions()
        if options.transaction_version is None:
            options.transaction_version = versions[-1]
        if options.transaction_version not in versions:
            raise Failure(f"Kafka {release.version} has transaction.version "
                          f"{' to '.join(sorted({str(versions[0]), str(versions[-1])}))} only")
        root = directory / name
        try:
            root.mkdir(parents=True)
        except FileExistsError:
            raise Failure(f"{root} exists: use restart or wipe, or remove it") from None
        try:
            return Cluster._create(root, release, options)
        except BaseException:
            shutil.rmtree(root)
            raise

    @staticmethod
    def _create(root: Path, release: Release, options: Options) -> Cluster:
        kinds = (3 if options.gate else 1) + (len(secure.LISTENERS) if options.secure else 0)
        controller_port, *ports = reserve_ports(kinds * options.nodes + 1, root)
        nodes = [Node(number, port, controller_port if number == 1 else None,
                      str(root / f"node-{number}.properties"), str(root / f"node-{number}.log"))
                 for number, port in enumerate(ports[:options.nodes], 1)]
        if options.gate:
            for node, gate, gated in zip(nodes, ports[options.nodes:], ports[2 * options.nodes:]):
                node.gate_port, node.gated_port = gate, gated
        if options.secure:
            secure.make_files(root)
            for node in nodes:
                node.secure_ports = {name: ports.pop() for name in secure.LISTENERS}
        cluster = Cluster(root, release, random_kafka_uuid(), options, nodes)
        for node in nodes:
            cluster._configure(node, controller_port)
            cluster._format(node)
        cluster.save(nodes)
        return cluster

    @staticmethod
    def load(directory: Path, name: str) -> Cluster:
        root = directory / name
        try:
            state = json.loads((root / "cluster.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise Failure(f"no cluster {name} in {directory}") from None
        return Cluster(root, Release(state["kafka"]), state["cluster_id"],
                       Options(**state["options"]), [Node(**node) for node in state["nodes"]])

    def save(self, changed: Sequence[Node]) -> None:
        """Writes cluster.json; another command may be at work on nodes that are not `changed`."""
        path = self.root / "cluster.json"
        with locked(self.root / ".lock"):
            if path.exists():
                saved = json.loads(path.read_text(encoding="utf-8"))["nodes"]
                for node, theirs in zip(self.nodes, saved):
                    if node not in changed:
                        node.pid, node.start_time = theirs["pid"], theirs["start_time"]
            security = {"security": self._security()} if self.options.secure else {}
            write_atomically(path, json.dumps({
                **security,
                "name": self.name,
                "bootstrap": self.bootstrap,
                "cluster_id": self.cluster_id,
                "kafka": self.release.version,
                "transaction_version": self.options.transaction_version,
                "nodes": [dataclasses.asdict(node) for node in self.nodes],
                "options": dataclasses.asdict(self.options),
            }, indent=2) + "\n")

    def _security(self) -> dict[str, object]:
        """How to get in: one bootstrap a listener, and who may."""
        bootstrap = {name: ",".join(f"localhost:{node.secure_ports[name]}" for node in self.nodes)
                     for name in secure.LISTENERS}
        return {"bootstrap": bootstrap, "folder": str(secure.folder(self.root)),
                "users": secure.USERS, "key_password": secure.KEY_PASSWORD}

    def node(self, number: int) -> Node:
        for node in self.nodes:
            if node.id == number:
                return node
        raise Failure(f"cluster {self.name} has no node {number}")

    def _data(self, node: Node) -> Path:
        return self.root / f"node-{node.id}-data"

    def _configure(self, node: Node, controller_port: int) -> None:
        listeners = advertised = f"PLAINTEXT://{HOST}:{node.port}"
        if node.gated_port:
            listeners += f",GATED://{HOST}:{node.gated_port}"
            advertised += f",GATED://{HOST}:{node.gate_port}"
        if node.controller_port:
            listeners += f",CONTROLLER://{HOST}:{node.controller_port}"
        for listener, port in node.secure_ports.items():
            listeners += f",{listener}://{HOST}:{port}"
            advertised += f",{listener}://localhost:{port}"
        config = {
            "process.roles": node.roles(),
            "node.id": str(node.id),
            "listeners": listeners,
            "advertised.listeners": advertised,
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map":
                "PLAINTEXT:PLAINTEXT,GATED:PLAINTEXT,CONTROLLER:PLAINTEXT," + secure.protocol_map(),
            "controller.quorum.voters": f"1@{HOST}:{controller_port}",
            "log.dirs": str(self._data(node)),
            **_NODE_DEFAULTS,
            **(secure.properties(self.root) if node.secure_ports else {}),
            **self.options.properties,
        }
        write_atomically(Path(node.config), "".join(f"{k}={v}\n" for k, v in config.items()))

    def _format(self, node: Node) -> None:
        data = self._data(node)
        shutil.rmtree(data, ignore_errors=True)
        template = self.release.formatted(node.roles(), self.options.transaction_version or 0,
                                          secure.USERS if self.options.secure else None)
        shutil.copytree(template, data)
        write_atomically(data / "meta.properties",
                         f"version=1\nnode.id={node.id}\ncluster.id={self.cluster_id}\n"
                         f"directory.id={random_kafka_uuid()}\n")

    # --- Its processes ---

    def start(self, nodes: Sequence[Node], jvm: Sequence[str] = ()) -> None:
        """Returns at once; await_serving waits."""
        flags = [f"-Xmx{self.options.heap}", "-Dorg.slf4j.simpleLogger.showDateTime=true",
                 "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS", *jvm]
        if self.options.jit == "c1":
            flags.append("-XX:TieredStopAtLevel=1")
        for node in nodes:
            if node.alive():
                raise Failure(f"node {node.id} of cluster {self.name} is running already")
            with open(node.log, "ab") as log:
                process = subprocess.Popen(  # pylint: disable=consider-using-with
                    self.release.command("kafka.Kafka", node.config, jvm=flags), stdout=log,
                    stderr=log, stdin=subprocess.DEVNULL, cwd=self.root, start_new_session=True,
                    env=self.release.environment())
            node.started(process.pid)
        self.save(nodes)

    def stop(self, nodes: Sequence[Node], seconds: float = _STOP_SECONDS) -> None:
        """TERM, and KILL for what is still there after some seconds; returns when all are gone."""
        for node in nodes:
            node.signal(signal.SIGTERM)
            node.signal(signal.SIGCONT)
        deadline = time.monotonic() + seconds
        while any(node.alive() for node in nodes) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.kill(nodes)

    def kill(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            node.signal(signal.SIGKILL)
        await_condition(f"cluster {self.name} to end", 30,
                        lambda: not any(node.alive() for node in nodes))
        for node in nodes:
            node.pid = node.start_time = None
        self.save(nodes)

    def wipe(self) -> None:
        """Kills it and makes it an empty cluster with another id at the same address."""
        self.kill(self.nodes)
        self.cluster_id = random_kafka_uuid()
        for node in self.nodes:
            self._format(node)
        self.save(self.nodes)

    # --- Whether it serves ---

    def await_serving(self, nodes: Sequence[Node], seconds: float) -> None:
        """Until these nodes are registered, lead what only they can lead, and every coordinator
        that lives on them has loaded its state."""
        numbers = {node.id for node in nodes}
        for node in nodes:
            self._await(node, "to register", seconds,
                        lambda: numbers <= protocol.fetch_metadata(node.port).brokers)
        if len(nodes) == len(self.nodes):
            self._await_coordinator_topics(nodes[0], seconds)
        for node in nodes:
            self._await(node, "to lead its partitions", seconds,
                        lambda: self._leads(node, numbers))
            self._await(node, "to load its coordinators", seconds,
                        lambda: self._coordinators_loaded(node))

    def create_topics(self, topics: Sequence[Topic]) -> None:
        """Creates what is missing and waits until all running nodes know all leaders."""
        running = [node for node in self.nodes if node.state() == "running"]
        if not running:
            raise Failure(f"cluster {self.name} has no running node")
        protocol.create_topics(running[0].port, topics)

        def known(node: Node) -> bool:
            seen = protocol.fetch_metadata(node.port).topics
            return all(len([p for p in seen.get(topic.name, []) if p.leader != -1])
                       >= topic.partitions for topic in topics)

        for node in running:
            self._await(node, "to know its topics", 30, lambda: known(node))

    def _await(self, node: Node, what: str, seconds: float, condition: Callable[[], bool]) -> None:
        what = f"node {node.id} of cluster {self.name} {what}"

        def alive_and_condition() -> bool:
            if not node.alive():
                raise Failure(f"waited for {what}, and it died")
            return condition()

        try:
            await_condition(what, seconds, alive_and_condition)
        except Failure as failure:
            raise Failure(f"{failure}\n{node.log_tail()}") from None

    def _await_coordinator_topics(self, via: Node, seconds: float) -> None:
        if self.options.coordinators_on is not None:
            # As the brokers would create them, but with every partition on one node.
            home = self.node(self.options.coordinators_on).id
            compression = {"__transaction_state": "uncompressed", "__consumer_offsets": "producer"}
            self.create_topics([Topic(name, _COORDINATOR_PARTITIONS, [home],
                                      {"cleanup.policy": "compact", "segment.bytes": "104857600",
                                       "compression.type": compression[name]})
                                for name in COORDINATOR_TOPICS])
        for topic in COORDINATOR_TOPICS:
            self._await(via, f"to have {topic}", seconds,
                        lambda: protocol.coordinator_exists(via.port, topic))

    @staticmethod
    def _leads(node: Node, started: set[int]) -> bool:
        topics = protocol.fetch_metadata(node.port).topics
        return all(p.leader != -1 for partitions in topics.values() for p in partitions
                   if set(p.replicas) <= started)

    @staticmethod
    def _coordinators_loaded(node: Node) -> bool:
        topics = protocol.fetch_metadata(node.port).topics
        return all(protocol.coordinator_loaded(node.port, name, p.index, len(topics[name]))
                   for name in COORDINATOR_TOPICS if name in topics
                   for p in topics[name] if p.leader == node.id)


def prepare(release: Release) -> None:
    """Jars and class data archive of a release; quick when they are in the cache."""
    release.fetch()
    with locked(release.root / "archive.lock"):
        if not release.archive().exists():
            _archive_classes(release)


def _archive_classes(release: Release) -> None:
    """Runs one broker and keeps its loaded classes: later ones start in half the time."""
    say(f"Preparing a class data archive for Apache Kafka {release.version}, once ...")
    with tempfile.TemporaryDirectory(prefix="lockstep-archive.") as folder:
        partial = Path(folder) / "classes.jsa"
        cluster = Cluster.create(Path(folder), "archive", release, Options())
        try:
            cluster.start(cluster.nodes, jvm=[f"-XX:ArchiveClassesAtExit={partial}"])
            cluster.await_serving(cluster.nodes, 120)
            cluster.create_topics([Topic("any")])
        finally:
            cluster.stop(cluster.nodes, seconds=60)
        if not partial.exists():
            say("  the JVM wrote none: brokers will start all the same, but slower")
            return
        staged = release.archive().with_suffix(".partial")
        shutil.copyfile(partial, staged)
        staged.replace(release.archive())
