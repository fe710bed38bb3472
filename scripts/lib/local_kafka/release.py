"""One version of Apache Kafka in the cache: its jars, formatted storage, a class data archive."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Sequence

from .basics import Failure, locked, random_kafka_uuid, say

_MAVEN_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"

# What only Kafka Connect and its REST server need is left out: half of the jars.
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>lockstep.local</groupId>
  <artifactId>kafka-jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{version}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka-tools</artifactId>
      <version>{version}</version>
      <exclusions>
        <exclusion>
          <groupId>org.apache.kafka</groupId>
          <artifactId>connect-runtime</artifactId>
        </exclusion>
        <exclusion>
          <groupId>org.apache.kafka</groupId>
          <artifactId>log4j-appender</artifactId>
        </exclusion>
        <exclusion>
          <groupId>org.slf4j</groupId>
          <artifactId>slf4j-reload4j</artifactId>
        </exclusion>
      </exclusions>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-simple</artifactId>
      <version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""


class Release:
    def __init__(self, version: str) -> None:
        if not re.fullmatch(r"\d+\.\d+\.\d+", version):
            raise Failure(f"not a version of Kafka: {version}")
        self.version = version
        self.numbers = tuple(int(part) for part in version.split("."))
        cache = os.environ.get("LOCKSTEP_CACHE") or Path.home() / ".cache" / "lockstep"
        self.cache = Path(cache).absolute()
        self.root = self.cache / f"kafka-{version}"
        java = shutil.which("java")
        if java is None:
            raise Failure("no java on this machine: run scripts/deps")
        self._java = java

    def transaction_versions(self) -> Sequence[int]:
        return (0, 1, 2) if self.numbers >= (4, 0) else (0,)

    def archive(self) -> Path:
        """The class data archive. It fits one build of the JVM only, so its name says which."""
        modules = Path(self._java).resolve().parent.parent / "lib" / "modules"
        stamp = f"{modules} {modules.stat().st_mtime_ns if modules.exists() else self._java}"
        return self.root / f"classes-{hashlib.sha256(stamp.encode()).hexdigest()[:12]}.jsa"

    def command(self, main: str, *arguments: str, jvm: Sequence[str] = ()) -> list[str]:
        flags = ["-XX:+UseSerialGC", "-Xshare:auto", "-XX:+ExitOnOutOfMemoryError"]
        if self.archive().exists():
            flags.append(f"-XX:SharedArchiveFile={self.archive()}")
        return [self._java, *flags, *jvm, main, *arguments]

    def tool_command(self, main: str, *arguments: str) -> list[str]:
        return self.command(main, *arguments, jvm=[
            "-XX:TieredStopAtLevel=1", "-Xlog:disable",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"])

    def environment(self) -> dict[str, str]:
        """This process's, without what would reach into the JVM, and with Kafka's class path."""
        foreign = ("KAFKA_", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
        clean = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        return {**clean, "CLASSPATH": f"{self.root}/libs/*"}

    def fetch(self) -> None:
        """The jars, from Maven, once; runs side by side wait for each other."""
        with locked(self.cache / f"kafka-{self.version}.lock"):
            if self.root.exists():
                return
            if shutil.which("mvn") is None:
                raise Failure("no mvn on this machine: run scripts/deps")
            say(f"Fetching the jars of Apache Kafka {self.version} through Maven, once ...")
            began = time.monotonic()
            prefix = f"kafka-{self.version}.partial."
            with tempfile.TemporaryDirectory(dir=self.cache, prefix=prefix) as folder:
                partial = Path(folder) / "kafka"
                partial.mkdir()
                self._copy_dependencies(partial)
                partial.rename(self.root)
            jars = len(list((self.root / "libs").glob("*.jar")))
            say(f"  {jars} jars in {time.monotonic() - began:.0f} s, in {self.root}")

    def _copy_dependencies(self, folder: Path) -> None:
        pom, log, libs = folder / "pom.xml", folder / "maven.log", folder / "libs"
        pom.write_text(_POM.format(version=self.version), encoding="utf-8")
        command = ["mvn", "-B", "-ntp", "-f", str(pom), f"{_MAVEN_PLUGIN}:copy-dependencies",
                   "-DincludeScope=runtime", f"-DoutputDirectory={libs}"]
        with open(log, "wb") as output, subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output) as maven:
            began = time.monotonic()
            while True:
                try:
                    maven.wait(timeout=10)
                    break
                except subprocess.TimeoutExpired:
                    say(f"  {time.monotonic() - began:.0f} s, still at it")
        if maven.returncode != 0:
            errors = [line for line in log.read_text(errors="replace").splitlines()
                      if line.startswith("[ERROR]")]
            raise Failure(f"Maven could not fetch Apache Kafka {self.version}:\n"
                          + "\n".join(errors[:10]))

    def formatted(self, roles: str, transaction_version: int,
                  scram_users: dict[str, str] | None = None) -> Path:
        """A log folder as Kafka's StorageTool formats it; made once, then copied for each node.
        `scram_users`: their passwords, by name."""
        name = f"formatted-{roles.replace(',', '-')}-tv{transaction_version}"
        scram = [word for user, password in (scram_users or {}).items()
                 for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
                 for word in ("--add-scram", f"{mechanism}=[name={user},password={password}]")]
        if scram:
            name += "-" + hashlib.sha256(" ".join(scram).encode()).hexdigest()[:12]
        with locked(self.root / f"{name}.lock"):
            if not (self.root / name).exists():
                with tempfile.TemporaryDirectory(dir=self.root, prefix=f"{name}.") as folder:
                    self._format(Path(folder), roles, transaction_version, scram)
                    (Path(folder) / "data").rename(self.root / name)
        return self.root / name

    def _format(self, folder: Path, roles: str, transaction_version: int,
                scram: Sequence[str]) -> None:
        controller = "controller" in roles
        listeners = "PLAINTEXT://:9092" + (",CONTROLLER://:9093" if controller else "")
        config = folder / "server.properties"
        config.write_text(f"process.roles={roles}\nnode.id={1 if controller else 2}\n"
                          f"listeners={listeners}\ncontroller.listener.names=CONTROLLER\n"
                          f"controller.quorum.voters=1@127.0.0.1:9093\nlog.dirs={folder}/data\n",
                          encoding="utf-8")
        feature = ["--feature", f"transaction.version={transaction_version}"]
        command = self.tool_command("kafka.tools.StorageTool", "format", "-t", random_kafka_uuid(),
                                    "-c", str(config), *(feature if self.numbers >= (4, 0) else []), *scram)
        done = subprocess.run(command, env=self.environment(), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        if done.returncode != 0:
            raise Failure(f"Kafka's StorageTool failed:\n{done.stdout}")
