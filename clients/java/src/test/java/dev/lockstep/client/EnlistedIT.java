package dev.lockstep.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Real producers, of whichever kafka-clients is on the class path, on real clusters. */
@Timeout(180)
class EnlistedIT extends OnClusters {
  private static int topics = 0;

  private String topic;
  private final AtomicInteger made = new AtomicInteger();
  /** How the producers' own ends went: "commit OK", or with an exception's name. */
  private final List<String> ownEnds = new CopyOnWriteArrayList<>();
  private Runnable beforeOwnEnd = () -> {};
  private final List<EnlistedProducer<String, String>> producers = new ArrayList<>();
  private EnlistedProducer<String, String> a;
  private EnlistedProducer<String, String> b;

  @BeforeEach
  void names() throws Exception {
    topic = stack.topic("topic-" + ++topics);
    a = producer("a", "id-" + topic);
    b = producer("b", "id-" + topic);
  }

  @AfterEach
  void close() {
    producers.forEach(EnlistedProducer::close);
  }

  private EnlistedProducer<String, String> producer(String cluster, String id) {
    return producer(cluster, id, ProducerProtocol.ofKafkaClients());
  }

  private EnlistedProducer<String, String> producer(
      String cluster, String id, ProducerProtocol protocol) {
    return producer(cluster, id, protocol, 600_000);
  }

  private EnlistedProducer<String, String> producer(
      String cluster, String id, ProducerProtocol protocol, int timeoutMs) {
    Map<String, Object> config = new HashMap<>();
    config.put("bootstrap.servers", stack.bootstrap(cluster));
    config.put("transactional.id", id);
    config.put("transaction.timeout.ms", timeoutMs);
    EnlistedProducer<String, String> producer =
        EnlistedProducer.create(
            client,
            cluster,
            id,
            protocol,
            () -> {
              made.incrementAndGet();
              return new Watched(config);
            });
    producers.add(producer);
    return producer;
  }

  private TxnResult both(String value) {
    try (Transaction txn = client.begin()) {
      txn.enlist(a).send(new ProducerRecord<>(topic, value));
      txn.enlist(b).send(new ProducerRecord<>(topic, value));
      return txn.commit(Duration.ofSeconds(60));
    }
  }

  private void assertOnBoth(List<String> values) {
    assertEquals(values, stack.committed("a", topic));
    assertEquals(values, stack.committed("b", topic));
  }

  @Test
  void aProducerGoesOnFromTransactionToTransaction() {
    List<String> values = new ArrayList<>();
    List<Long> micros = new ArrayList<>();
    for (int i = 0; i < 60; ++i) {
      long before = System.nanoTime();
      TxnResult result = both("value-" + i);
      micros.add((System.nanoTime() - before) / 1000);
      assertEquals(Outcome.COMMITTED, result.outcome(), result.describe());
      values.add("value-" + i);
    }
    assertOnBoth(values);
    assertEquals(2, made.get());
    assertEquals(Set.of("commit OK"), Set.copyOf(ownEnds));
    micros.subList(0, 10).clear();
    micros.sort(null);
    System.out.printf(
        "enlisted pair: median %d us, p90 %d us, longest %d us%n",
        micros.get(micros.size() / 2), micros.get(micros.size() * 9 / 10),
        micros.get(micros.size() - 1));
  }

  @Test
  void abortedIsNowhereAndTheProducerGoesOn() {
    both("before");
    try (Transaction txn = client.begin()) {
      txn.enlist(a).send(new ProducerRecord<>(topic, "aborted"));
      txn.enlist(b).send(new ProducerRecord<>(topic, "aborted"));
      assertEquals(Outcome.ABORTED, txn.abort().outcome());
    }
    try (Transaction txn = client.begin()) {
      txn.enlist(a).send(new ProducerRecord<>(topic, "left"));
    }
    assertEquals(Outcome.COMMITTED, both("after").outcome());
    assertOnBoth(List.of("before", "after"));
    assertEquals(Set.of("commit OK", "abort OK"), Set.copyOf(ownEnds));
    assertEquals(2, made.get());
  }

  @Test
  void nothingWrittenCommitsNothing() {
    for (int i = 0; i < 3; ++i) {
      try (Transaction txn = client.begin()) {
        txn.enlist(a);
        txn.enlist(b).send(new ProducerRecord<>(topic, "b-" + i));
        TxnResult result = txn.commit();
        assertEquals(Outcome.COMMITTED, result.outcome(), result.describe());
      }
    }
    assertEquals(Outcome.COMMITTED, both("both").outcome());
    assertEquals(List.of("both"), stack.committed("a", topic));
    assertEquals(List.of("b-0", "b-1", "b-2", "both"), stack.committed("b", topic));
  }

  @Test
  void offsetsAndTheServersOwnRecordsCommitWithIt() {
    TopicPartition partition = new TopicPartition(topic, 0);
    try (Transaction txn = client.begin()) {
      Enlistment<String, String> out = txn.enlist(a);
      out.send(new ProducerRecord<>(topic, "direct"));
      out.sendOffsets(
          Map.of(partition, new OffsetAndMetadata(5)), new ConsumerGroupMetadata("g-" + topic));
      txn.produce("b", KafkaRecord.of(topic, null, "through the server"));
      TxnResult result = txn.commit();
      assertEquals(Outcome.COMMITTED, result.outcome(), result.describe());
    }
    assertEquals(List.of("direct"), stack.committed("a", topic));
    assertEquals(List.of("through the server"), stack.committed("b", topic));
    try (KafkaConsumer<String, String> consumer =
        new KafkaConsumer<>(
            Map.of("bootstrap.servers", stack.bootstrap("a"), "group.id", "g-" + topic),
            new StringDeserializer(),
            new StringDeserializer())) {
      assertEquals(5, consumer.committed(Set.of(partition)).get(partition).offset());
    }
  }

  @Test
  void aSuccessorFencesAndWhatWasOpenAborts() {
    both("before");
    EnlistedProducer<String, String> successor = producer("a", "id-" + topic);
    try (Transaction txn = client.begin()) {
      txn.enlist(a).send(new ProducerRecord<>(topic, "zombie"));
      txn.enlist(b).send(new ProducerRecord<>(topic, "zombie"));
      successor.warmUp();
      assertEquals(Outcome.ABORTED, txn.commit().outcome());
    }
    try (Transaction txn = client.begin()) {
      txn.enlist(successor).send(new ProducerRecord<>(topic, "after"));
      txn.enlist(b).send(new ProducerRecord<>(topic, "after"));
      assertEquals(Outcome.COMMITTED, txn.commit().outcome());
    }
    assertOnBoth(List.of("before", "after"));
  }

  @Test
  void aSuccessorThatNobodyRegisteredIsLeftAlone() throws Exception {
    both("before");
    try (Transaction txn = client.begin();
        KafkaProducer<String, String> successor =
            new KafkaProducer<>(
                Map.of(
                    "bootstrap.servers", stack.bootstrap("a"), "transactional.id", "id-" + topic),
                new StringSerializer(),
                new StringSerializer())) {
      txn.enlist(a).send(new ProducerRecord<>(topic, "zombie")).get();
      txn.enlist(b).send(new ProducerRecord<>(topic, "zombie")).get();
      successor.initTransactions();
      successor.beginTransaction();
      successor.send(new ProducerRecord<>(topic, "its own")).get();
      assertEquals(Outcome.ABORTED, txn.commit().outcome());
      assertEquals(List.of("before"), stack.committed("a", topic));
      successor.commitTransaction();
    }
    assertEquals(Outcome.COMMITTED, both("after").outcome());
    assertEquals(List.of("before", "its own", "after"), stack.committed("a", topic));
    assertEquals(List.of("before", "after"), stack.committed("b", topic));
  }

  /** Told COMMITTED, but too late with its own commitTransaction. */
  @Test
  void aSuccessorBeforeTheOwnEndChangesNothing() {
    EnlistedProducer<String, String> successor = producer("a", "id-" + topic);
    beforeOwnEnd = successor::warmUp;
    TxnResult result = both("told");
    beforeOwnEnd = () -> {};
    assertEquals(Outcome.COMMITTED, result.outcome(), result.describe());
    assertEquals(List.of("commit ProducerFencedException", "commit OK"), ownEnds);
    a = successor;
    assertEquals(Outcome.COMMITTED, both("after").outcome());
    assertOnBoth(List.of("told", "after"));
  }

  @Test
  void whatTheBrokerTimedOutIsAborted() throws Exception {
    a = producer("a", "id-" + topic, ProducerProtocol.ofKafkaClients(), 1_000);
    try (Transaction txn = client.begin();
        Admin admin = Admin.create(Map.of("bootstrap.servers", stack.bootstrap("a")))) {
      txn.enlist(a).send(new ProducerRecord<>(topic, "late")).get();
      txn.enlist(b).send(new ProducerRecord<>(topic, "late")).get();
      TransactionState state;
      do {
        state =
            admin
                .describeTransactions(Set.of("id-" + topic))
                .description("id-" + topic)
                .get()
                .state();
      } while (state != TransactionState.COMPLETE_ABORT);
      assertEquals(Outcome.ABORTED, txn.commit().outcome());
    }
    a.close();
    a = producer("a", "id-" + topic);
    assertEquals(Outcome.COMMITTED, both("after").outcome());
    assertOnBoth(List.of("after"));
  }

  @Test
  void theWrongProtocolCostsAProducerAndNeverAnOutcome() {
    ProducerProtocol wrong =
        ProducerProtocol.ofKafkaClients() == ProducerProtocol.TV1
            ? ProducerProtocol.TV2
            : ProducerProtocol.TV1;
    a = producer("a", "wrong-" + topic, wrong);
    b = producer("b", "wrong-" + topic, wrong);
    List<String> values = List.of("value-0", "value-1", "value-2");
    for (String value : values) {
      TxnResult result = both(value);
      assertEquals(Outcome.COMMITTED, result.outcome(), result.describe());
    }
    try (Transaction txn = client.begin()) {
      txn.enlist(a).send(new ProducerRecord<>(topic, "aborted"));
      assertEquals(Outcome.ABORTED, txn.abort().outcome());
    }
    assertOnBoth(values);
    Set<String> expected = Set.of("commit OK", "abort OK");
    if (stack.protocol(wrong) != stack.protocol(ProducerProtocol.ofKafkaClients())) {
      expected =
          wrong == ProducerProtocol.TV1
              ? Set.of("commit InvalidTxnStateException", "abort OK")
              : Set.of("commit ProducerFencedException", "abort ProducerFencedException");
    }
    assertEquals(expected, Set.copyOf(ownEnds));
  }

  @Test
  void aProducerThatIsDiscardedLeavesItsTransactionOpen() throws Exception {
    Transaction txn = client.begin();
    txn.enlist(a).send(new ProducerRecord<>(topic, "open")).get();
    a.close();
    // Nothing but Lockstep ends it: until then read_committed stops before it.
    try (KafkaConsumer<String, String> consumer =
        new KafkaConsumer<>(
            Map.of(
                "bootstrap.servers", stack.bootstrap("a"), "isolation.level", "read_committed"),
            new StringDeserializer(),
            new StringDeserializer())) {
      TopicPartition partition = new TopicPartition(topic, 0);
      assertEquals(0, consumer.endOffsets(Set.of(partition)).get(partition));
    }
    txn.close();
    a = producer("a", "id-" + topic);
    assertEquals(Outcome.COMMITTED, both("after").outcome());
    assertOnBoth(List.of("after"));
  }

  /** kill -9 of the server at each step of a commit; the client asks on, and gets one answer. */
  @ParameterizedTest
  @CsvSource({
    "before_prepare, ABORTED",
    "votes_in, ABORTED",
    "decision_durable, COMMITTED",
    "participant_ended, COMMITTED",
    "before_answer, COMMITTED",
    "completion_durable, COMMITTED",
  })
  void aKilledServerLeavesBothClustersTheSame(String step, Outcome expected) throws Exception {
    both("before");
    stack.kill();
    stack.start("--enable-failpoints", "--failpoint", "coordinator." + step + "=crash");
    CompletableFuture<TxnResult> outcome = CompletableFuture.supplyAsync(() -> both("killed"));
    stack.awaitEnd();
    stack.start();
    assertEquals(expected, outcome.get().outcome(), outcome.get().describe());
    assertEquals(Outcome.COMMITTED, both("after").outcome());
    assertOnBoth(
        expected == Outcome.COMMITTED
            ? List.of("before", "killed", "after")
            : List.of("before", "after"));
  }

  @Test
  void aConfigurationIsEnough() {
    try (EnlistedProducer<String, String> plain =
        EnlistedProducer.create(
            client,
            "a",
            Map.of(
                "bootstrap.servers", stack.bootstrap("a"), "transactional.id", "plain-" + topic),
            new StringSerializer(),
            new StringSerializer())) {
      try (Transaction txn = client.begin()) {
        txn.enlist(plain).send(new ProducerRecord<>(topic, "plain"));
        assertEquals(Outcome.COMMITTED, txn.commit().outcome());
      }
    }
    assertEquals(List.of("plain"), stack.committed("a", topic));
  }

  @Test
  void aClusterThatTheServerDoesNotKnowIsRefused() {
    EnlistedProducer<String, String> nowhere = producer("a", "nowhere");
    EnlistedProducer<String, String> unknown =
        EnlistedProducer.create(
            client, "c", "nowhere", ProducerProtocol.TV2, () -> new RecordingNothing());
    try (Transaction txn = client.begin()) {
      LockstepException refused =
          assertThrows(LockstepException.class, () -> txn.enlist(unknown));
      assertEquals("UNKNOWN_CLUSTER", refused.reason());
      txn.enlist(nowhere).send(new ProducerRecord<>(topic, "goes on"));
      assertEquals(Outcome.COMMITTED, txn.commit().outcome());
    }
    assertFalse(stack.committed("a", topic).isEmpty());
  }

  /** Tells how its own ends went. */
  private final class Watched extends KafkaProducer<String, String> {
    Watched(Map<String, Object> config) {
      super(config, new StringSerializer(), new StringSerializer());
    }

    @Override
    public void commitTransaction() {
      beforeOwnEnd.run();
      watch("commit", super::commitTransaction);
    }

    @Override
    public void abortTransaction() {
      watch("abort", super::abortTransaction);
    }

    private void watch(String what, Runnable end) {
      try {
        end.run();
        ownEnds.add(what + " OK");
      } catch (RuntimeException e) {
        ownEnds.add(what + " " + e.getClass().getSimpleName());
        throw e;
      }
    }
  }

  /** A producer that is never used. */
  private static final class RecordingNothing
      extends org.apache.kafka.clients.producer.MockProducer<String, String> {}
}
