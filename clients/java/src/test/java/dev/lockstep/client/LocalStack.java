package dev.lockstep.client;

import java.io.File;
import java.io.IOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Two real clusters, a and b, and a lockstepd that may be killed and comes back where it was. The
 * system properties broker.version and broker.transaction.version say which clusters.
 */
final class LocalStack implements AutoCloseable {
  private static final Path ROOT = Path.of("../..").toAbsolutePath().normalize();

  private final Path folder =
      Files.createTempDirectory(
          Path.of(System.getenv().getOrDefault("TMPDIR", "/var/tmp")), "lockstep-java.");
  private final String lockstepd =
      System.getProperty(
          "lockstepd", ROOT.resolve("build/debug/src/server/lockstepd").toString());
  private final Map<String, String> bootstrap;
  private final int transactionVersion;
  private final int port;
  private Process daemon;

  /**
   * @param gate to stand before cluster a; or null
   */
  LocalStack(Gate gate) throws Exception {
    Process a = startCluster("a", gate == null ? 0 : gate.port());
    Process b = startCluster("b", 0);
    if (a.waitFor() != 0 || b.waitFor() != 0) throw new IOException("no clusters: " + folder);
    List<String> env = Files.readAllLines(folder.resolve("clusters/clusters.env"));
    bootstrap = Map.of("a", value(env, "A_BOOTSTRAP"), "b", value(env, "B_BOOTSTRAP"));
    transactionVersion = Integer.parseInt(value(env, "A_TRANSACTION_VERSION"));
    if (gate != null) gate.leadTo(bootstrap("a"));
    try (ServerSocket free = new ServerSocket(0)) {
      port = free.getLocalPort();
    }
    Files.writeString(
        folder.resolve("lockstepd.yaml"),
        """
        listen: 127.0.0.1:%d
        data_dir: %s/data
        clusters:
          - name: a
            bootstrap_servers: %s
          - name: b
            bootstrap_servers: %s
        """
            .formatted(port, folder, bootstrap.get("a"), bootstrap.get("b")));
    start();
  }

  private Process startCluster(String name, int advertisedPort) throws IOException {
    List<String> words =
        new ArrayList<>(
            List.of("--name", name, "--kafka", System.getProperty("broker.version", "4.4.0")));
    String transactionVersion = System.getProperty("broker.transaction.version");
    if (transactionVersion != null) {
      words.addAll(List.of("--transaction-version", transactionVersion));
    }
    if (advertisedPort != 0) {
      String listener = "advertised.listeners=PLAINTEXT://127.0.0.1:" + advertisedPort;
      words.addAll(List.of("--property", listener));
    }
    return clusters("start", words);
  }

  private static String value(List<String> env, String name) {
    String variable = "LOCKSTEP_CLUSTER_" + name + "=";
    return env.stream()
        .filter(line -> line.startsWith(variable))
        .map(line -> line.substring(variable.length()).replaceAll("['\"]", ""))
        .findFirst()
        .orElseThrow();
  }

  private Process clusters(String command, List<String> arguments) throws IOException {
    List<String> words = new ArrayList<>();
    words.add(ROOT.resolve("scripts/clusters").toString());
    words.addAll(List.of(command, "--dir", folder.resolve("clusters").toString()));
    words.addAll(arguments);
    return new ProcessBuilder(words).redirectErrorStream(true).redirectOutput(log()).start();
  }

  private ProcessBuilder.Redirect log() {
    return ProcessBuilder.Redirect.appendTo(new File(folder.toFile(), "log"));
  }

  /** Clients try until it serves. */
  void start(String... options) throws IOException {
    List<String> words =
        new ArrayList<>(
            List.of(lockstepd, "--config", folder.resolve("lockstepd.yaml").toString()));
    words.addAll(Arrays.asList(options));
    daemon = new ProcessBuilder(words).redirectErrorStream(true).redirectOutput(log()).start();
  }

  /** kill -9. */
  void kill() throws InterruptedException {
    daemon.destroyForcibly().waitFor();
  }

  /** Until it has ended by itself, at a failpoint. */
  void awaitEnd() throws Exception {
    if (!daemon.waitFor(60, TimeUnit.SECONDS)) throw new IOException("lockstepd did not end");
  }

  LockstepClient connect() {
    return LockstepClient.connect("127.0.0.1:" + port);
  }

  String bootstrap(String cluster) {
    return bootstrap.get(cluster);
  }

  /** What {@code claimed} is worth on these clusters. */
  ProducerProtocol protocol(ProducerProtocol claimed) {
    return transactionVersion < 2 ? ProducerProtocol.TV1 : claimed;
  }

  /** A topic of one partition on both clusters. */
  String topic(String name) throws Exception {
    for (String cluster : bootstrap.keySet()) {
      try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap(cluster)))) {
        admin.createTopics(List.of(new NewTopic(name, 1, (short) 1))).all().get();
      }
    }
    return name;
  }

  /** Every value that a read_committed consumer sees, to the last stable offset. */
  List<String> committed(String cluster, String topic) {
    List<String> values = new ArrayList<>();
    try (KafkaConsumer<String, String> consumer =
        new KafkaConsumer<>(
            Map.of(
                "bootstrap.servers", bootstrap(cluster), "isolation.level", "read_committed"),
            new StringDeserializer(),
            new StringDeserializer())) {
      List<TopicPartition> partitions = new ArrayList<>();
      for (PartitionInfo info : consumer.partitionsFor(topic)) {
        partitions.add(new TopicPartition(topic, info.partition()));
      }
      consumer.assign(partitions);
      consumer.seekToBeginning(partitions);
      Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
      while (partitions.stream().anyMatch(it -> consumer.position(it) < ends.get(it))) {
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
          values.add(record.value());
        }
      }
    }
    return values;
  }

  @Override
  public void close() throws Exception {
    daemon.destroy();
    if (!daemon.waitFor(20, TimeUnit.SECONDS)) kill();
    if (clusters("stop", List.of()).waitFor() != 0) throw new IOException("stop: " + folder);
    try (Stream<Path> all = Files.walk(folder)) {
      all.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
    }
  }
}
