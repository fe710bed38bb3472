package dev.lockstep.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The network holds an EndTxn of the server's, and delivers it when the producer has begun its next
 * transaction.
 */
@Timeout(120)
class LateEndIT {
  private static Gate gate;
  private static LocalStack stack;
  private static LockstepClient client;
  private static int topics = 0;

  private String topic;
  private EnlistedProducer<String, String> a;
  private EnlistedProducer<String, String> b;

  @BeforeAll
  static void start() throws Exception {
    gate = new Gate();
    stack = new LocalStack(gate);
    client = stack.connect();
  }

  @AfterAll
  static void stop() throws Exception {
    client.close();
    stack.close();
    gate.close();
  }

  @BeforeEach
  void producers() throws Exception {
    topic = stack.topic("late-" + ++topics);
    a = producer("a");
    b = producer("b");
  }

  @AfterEach
  void close() {
    a.close();
    b.close();
  }

  private EnlistedProducer<String, String> producer(String cluster) {
    return EnlistedProducer.create(
        client,
        cluster,
        Map.of("bootstrap.servers", stack.bootstrap(cluster), "transactional.id", topic),
        new StringSerializer(),
        new StringSerializer());
  }

  private Transaction written(String value) throws Exception {
    Transaction txn = client.begin();
    txn.enlist(a).send(new ProducerRecord<>(topic, value)).get();
    txn.enlist(b).send(new ProducerRecord<>(topic, value)).get();
    return txn;
  }

  private static TxnResult end(Transaction txn, boolean commit) {
    return commit ? txn.commit() : txn.abort();
  }

  private static Outcome outcome(boolean commit) {
    return commit ? Outcome.COMMITTED : Outcome.ABORTED;
  }

  private static void assertFencedByEpoch(int error) {
    // INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
    assertTrue(error == 47 || error == 90, "error " + error);
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void doesNotEndTheNextTransaction(boolean commit) throws Exception {
    Transaction first = written("first");
    gate.holdNextEndTxn();
    CompletableFuture<TxnResult> told = CompletableFuture.supplyAsync(() -> end(first, commit));
    gate.awaitHeld();
    // Its fate is unknown, and the producer cannot go on.
    assertFalse(told.isDone());
    gate.cut();
    assertEquals(outcome(commit), told.get().outcome(), told.get().describe());

    Transaction next = written("next");
    assertFencedByEpoch(gate.deliver());
    assertEquals(outcome(!commit), end(next, !commit).outcome());
    for (String cluster : List.of("a", "b")) {
      assertEquals(List.of(commit ? "first" : "next"), stack.committed(cluster, topic));
    }
  }

  @Test
  void aSuccessorWaitsWhileTheEndIsOnItsWay() throws Exception {
    Transaction first = written("first");
    gate.holdNextEndTxn();
    CompletableFuture<TxnResult> told = CompletableFuture.supplyAsync(first::commit);
    gate.awaitHeld();
    EnlistedProducer<String, String> before = a;
    a = producer("a");
    CompletableFuture<Void> ready = CompletableFuture.runAsync(a::warmUp);
    assertFalse(ready.isDone());
    gate.cut();
    ready.get();
    assertEquals(Outcome.COMMITTED, told.get().outcome(), told.get().describe());

    Transaction next = written("next");
    assertFencedByEpoch(gate.deliver());
    before.close();
    assertEquals(Outcome.ABORTED, next.abort().outcome());
    for (String cluster : List.of("a", "b")) {
      assertEquals(List.of("first"), stack.committed(cluster, topic));
    }
  }
}
