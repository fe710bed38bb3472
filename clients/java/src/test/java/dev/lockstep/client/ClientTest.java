package dev.lockstep.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.lockstep.client.LockstepException.Code;
import dev.lockstep.client.LockstepException.Effect;
import io.grpc.Status;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import lockstep.v1.CoordinatorOuterClass.CommitWait;
import lockstep.v1.Txn;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(30)
class ClientTest {
  static final ClientOptions FAST =
      ClientOptions.DEFAULT.withBackoff(Duration.ofMillis(1), Duration.ofMillis(20));

  /** For calls that are to fail; long enough for those before, on a busy machine. */
  static final ClientOptions IMPATIENT = FAST.withCallTimeout(Duration.ofSeconds(2));

  private static final Duration SHORT = Duration.ofMillis(100);

  private FakeServer server;
  private LockstepClient client;

  @BeforeEach
  void start() throws Exception {
    server = new FakeServer();
    client = LockstepClient.connect(server.address(), FAST);
  }

  @AfterEach
  void stop() throws Exception {
    client.close();
    server.close();
  }

  private static KafkaRecord record(String value) {
    return KafkaRecord.of("orders", "k", value);
  }

  private FakeServer.Known known(Transaction txn) {
    return server.txns.get(txn.id());
  }

  @Test
  void workIsNumberedAndCommitted() {
    try (Transaction txn = client.begin()) {
      assertEquals(Instant.ofEpochSecond(1000), txn.expiresAt());
      txn.produce("east", record("1"), record("2"));
      txn.sendOffsets(
          "west",
          GroupOffsets.of(
              GroupOffsets.Group.standalone("g"), List.of(GroupOffsets.Offset.of("in", 3, 14))));
      txn.produce("west", record("3"));
      assertEquals(Outcome.COMMITTED, txn.commit().orThrow().outcome());
      assertEquals(List.of("east", "west"), known(txn).clusters);
      assertEquals(3, known(txn).records.size());
      assertEquals(14, known(txn).offsets.get(0).getOffset());
      assertEquals(3, known(txn).nextSequence);
    }
    assertEquals(0, server.count("Abort"));
  }

  @Test
  void nullAndEmptyStayDifferent() {
    try (Transaction txn = client.begin()) {
      KafkaRecord tombstone = KafkaRecord.of("t", "", null).withPartition(0).withHeader("h", null);
      txn.produce("east", tombstone, KafkaRecord.of("t", null, ""));
      Txn.Record first = known(txn).records.get(0);
      assertTrue(first.hasKey() && !first.hasValue() && first.hasPartition());
      assertFalse(first.getHeaders(0).hasValue());
      Txn.Record second = known(txn).records.get(1);
      assertTrue(!second.hasKey() && second.hasValue() && !second.hasPartition());
    }
  }

  @Test
  void lostAnswersAreAskedForAgain() {
    server.lose("Begin");
    try (Transaction txn = client.begin()) {
      server.lose("Produce");
      txn.produce("east", record("1"));
      assertEquals(1, known(txn).records.size());
      server.lose("Commit");
      server.refuse("Commit", FakeServer.outcomeUnknown());
      assertEquals(Outcome.COMMITTED, txn.commit().outcome());
      assertEquals(3, server.count("Commit"));
    }
  }

  @Test
  void committingIsAskedAgain() {
    try (Transaction txn = client.begin()) {
      server.answer("Commit", FakeServer.committing());
      assertEquals(Outcome.COMMITTED, txn.commit().outcome());
    }
  }

  @Test
  void committingIsTheAnswerWhenThereIsNoMoreTime() {
    try (Transaction txn = client.begin()) {
      for (int i = 0; i < 1000; ++i) server.answer("Commit", FakeServer.committing());
      TxnResult result = txn.commit(SHORT);
      assertEquals(Outcome.COMMITTING, result.outcome());
      assertTrue(result.decided());
    }
    assertEquals(0, server.count("Abort"));
  }

  @Test
  void decidedIsNotAskedAgain() {
    try (Transaction txn = client.begin()) {
      server.answer("Commit", FakeServer.committing());
      assertEquals(Outcome.COMMITTING, txn.commit(Wait.DECIDED, SHORT).outcome());
      assertEquals(CommitWait.COMMIT_WAIT_DECIDED, server.commits.get(0).getWait());
    }
  }

  @Test
  void abortedIsAnAnswer() {
    try (Transaction txn = client.begin()) {
      server.answer(
          "Commit", FakeServer.aborted(Txn.AbortReason.ABORT_REASON_UNKNOWN_TOPIC, "east"));
      TxnResult result = txn.commit();
      assertEquals(Outcome.ABORTED, result.outcome());
      assertEquals("ABORTED: UNKNOWN_TOPIC on east: as told", result.describe());
      assertEquals(result, assertThrows(NotCommittedException.class, result::orThrow).result());
    }
  }

  @Test
  void abortsUnlessCommitted() {
    Transaction left = client.begin();
    left.close();
    assertEquals(Txn.Outcome.OUTCOME_ABORTED, known(left).outcome);
    LockstepException refused =
        assertThrows(LockstepException.class, () -> left.produce("east", record("late")));
    assertEquals(Code.WRONG_STATE, refused.code());
    assertThrows(LockstepException.class, left::commit);
    assertEquals(0, server.count("Commit"));
  }

  @Test
  void unknownOutcomeIsNotAbortedAndMayBeAskedForAgain() {
    Transaction txn = client.begin();
    try (txn) {
      for (int i = 0; i < 1000; ++i) server.refuse("Commit", FakeServer.outcomeUnknown());
      LockstepException unknown =
          assertThrows(LockstepException.class, () -> txn.commit(SHORT));
      assertEquals(Effect.UNKNOWN, unknown.effect());
      assertTrue(unknown.getMessage().contains(txn.id()), unknown.getMessage());
    }
    assertEquals(0, server.count("Abort"));
    server.forget("Commit");
    assertEquals(Outcome.COMMITTED, txn.commit().outcome());
    assertEquals(Outcome.COMMITTED, client.commit(txn.id()).outcome());
  }

  @Test
  void workOfUnknownEffectLeavesOnlyTheAbort() throws Exception {
    client.close();
    client = LockstepClient.connect(server.address(), IMPATIENT);
    try (Transaction txn = client.begin()) {
      for (int i = 0; i < 1000; ++i) server.refuse("Produce", Status.UNAVAILABLE.asException());
      LockstepException unknown =
          assertThrows(LockstepException.class, () -> txn.produce("east", record("1")));
      assertEquals(Effect.UNKNOWN, unknown.effect());
      server.forget("Produce");
      assertThrows(LockstepException.class, () -> txn.produce("east", record("2")));
      assertEquals(
          Code.WRONG_STATE, assertThrows(LockstepException.class, txn::commit).code());
    }
    assertEquals(0, server.count("Commit"));
    assertEquals(1, server.count("Abort"));
  }

  @Test
  void fullIsTheCallersToHandleUntilTheCommit() {
    try (Transaction txn = client.begin()) {
      server.refuse("Produce", FakeServer.limitReached());
      LockstepException full =
          assertThrows(LockstepException.class, () -> txn.produce("east", record("1")));
      assertEquals(Code.LIMIT_REACHED, full.code());
      assertEquals(Effect.NONE, full.effect());
      assertEquals(Duration.ofMillis(1), full.retryAfter().orElseThrow());
      txn.produce("east", record("1"));
      server.refuse("Commit", FakeServer.limitReached());
      assertEquals(Outcome.COMMITTED, txn.commit().outcome());
    }
  }

  @Test
  void aServerThatComesBackIsFound() throws Exception {
    client.begin().close();
    int port = server.port();
    server.close();
    CompletableFuture<Void> back =
        CompletableFuture.runAsync(
            () -> {
              try {
                // Somebody who hangs up, so that the client has failed before there is a server.
                try (ServerSocket nobody = new ServerSocket(port)) {
                  nobody.accept().close();
                }
                server.comeBack(port);
              } catch (IOException e) {
                throw new UncheckedIOException(e);
              }
            });
    long before = System.nanoTime();
    client.begin().close();
    back.get();
    assertTrue(Duration.ofNanos(System.nanoTime() - before).toMillis() < 5000);
  }

  @Test
  void executeIsRepeatedUnderItsKey() {
    server.lose("Execute");
    Executed done =
        client.execute(
            List.of(Work.produce("east", record("1")), Work.produce("west", record("1"))));
    assertEquals(Outcome.COMMITTED, done.result().outcome());
    assertTrue(done.repeatedKey());
    assertEquals(2, server.executed.size());
    assertEquals(server.executed.get(0), server.executed.get(1));
    assertEquals(done.key().name(), server.executed.get(0).getKey());
    assertEquals(2, server.executed.get(0).getWorkCount());
  }

  @Test
  void executeKeepsTheCallersKey() {
    ExecuteKey key = ExecuteKey.of("order-42");
    GroupOffsets offsets =
        GroupOffsets.of(
            GroupOffsets.Group.standalone("g"), List.of(GroupOffsets.Offset.of("in", 0, 1)));
    client.execute(List.of(Work.offsets("east", offsets)), key, BeginOptions.DEFAULT);
    assertEquals("order-42", server.executed.get(0).getKey());
    assertEquals(Convert.timestamp(key.madeAt()), server.executed.get(0).getKeyTime());
    assertTrue(server.executed.get(0).getWork(0).hasOffsets());
  }

  @Test
  void getTxnTells() {
    TxnInfo info = client.getTxn("t7");
    assertEquals("t7", info.id());
    assertEquals(TxnState.ABORTED, info.state());
    assertEquals("a label", info.label());
  }

  @Test
  void anInterruptEndsACall() {
    Transaction txn = client.begin();
    server.hold("Commit"); // An answer that is there already would be taken, interrupted or not.
    Thread.currentThread().interrupt();
    LockstepException interrupted = assertThrows(LockstepException.class, txn::commit);
    assertTrue(Thread.interrupted());
    assertEquals(Code.INTERRUPTED, interrupted.code());
    assertEquals(Effect.UNKNOWN, interrupted.effect());
    assertEquals(Outcome.COMMITTED, txn.commit().outcome());
  }

  @Test
  void whoCommitsOffsetsGoesAlong() {
    GroupOffsets offsets =
        KafkaTypes.offsets(
            new ConsumerGroupMetadata("g", 7, "m", java.util.Optional.of("i")),
            Map.of(new TopicPartition("in", 2), new OffsetAndMetadata(5)));
    assertEquals(new GroupOffsets.Group("g", 7, "m", "i", false), offsets.group());
    assertEquals(new GroupOffsets.Offset("in", 2, 5, null, ""), offsets.offsets().get(0));
  }
}
