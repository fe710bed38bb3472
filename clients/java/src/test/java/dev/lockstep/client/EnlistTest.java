package dev.lockstep.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.lockstep.client.LockstepException.Effect;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.function.Consumer;
import lockstep.v1.CoordinatorOuterClass.CommitResponse;
import lockstep.v1.CoordinatorOuterClass.EnlistResponse;
import lockstep.v1.CoordinatorOuterClass.EnlistedWork;
import lockstep.v1.Txn;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.errors.TimeoutException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The rules that a client of its own producer keeps. */
@Timeout(30)
class EnlistTest {
  private static final Duration SHORT = Duration.ofMillis(100);
  private static final List<String> FIRST =
      List.of("Begin", "Register", "init", "Enlist", "begin", "send", "flush", "Commit");

  private FakeServer server;
  private LockstepClient client;
  private EnlistedProducer<String, String> east;
  private final List<RecordingProducer> made = new ArrayList<>();
  private Consumer<RecordingProducer> prepare = producer -> {};

  @BeforeEach
  void start() throws Exception {
    server = new FakeServer();
    client = LockstepClient.connect(server.address(), ClientTest.FAST);
    east = producer("east");
  }

  @AfterEach
  void stop() throws Exception {
    east.close();
    client.close();
    server.close();
  }

  private EnlistedProducer<String, String> producer(String cluster) {
    return EnlistedProducer.create(
        client,
        cluster,
        "id-" + cluster,
        ProducerProtocol.TV2,
        () -> {
          RecordingProducer producer = new RecordingProducer(server);
          prepare.accept(producer);
          made.add(producer);
          return producer;
        });
  }

  private static ProducerRecord<String, String> record() {
    return new ProducerRecord<>("orders", 1, "k", "v");
  }

  /** One transaction with one record. */
  private TxnResult run() {
    try (Transaction txn = client.begin()) {
      txn.enlist(east).send(record());
      return txn.commit();
    }
  }

  /** What was logged after {@link #FIRST}, which must have been there. */
  private List<String> afterCommit() {
    List<String> log = server.log();
    assertEquals(FIRST, log.subList(0, FIRST.size()));
    return log.subList(FIRST.size(), log.size());
  }

  private void assertMadeAnew() {
    int before = made.size();
    server.forget("Commit");
    server.reinitRequired = false;
    assertEquals(Outcome.COMMITTED, run().outcome());
    assertEquals(before + 1, made.size());
    assertEquals(made.size(), server.count("Register"));
  }

  // ---- The order of things ----

  @Test
  void registersInitialisesEnlistsWritesAndEndsLast() {
    assertEquals(Outcome.COMMITTED, run().outcome());
    assertEquals(List.of("commitTransaction"), afterCommit());
    assertEquals("id-east", server.registered.get(0).getTransactionalId());
  }

  @Test
  void theNextTransactionGoesOnWithTheSameProducer() {
    run();
    run();
    assertEquals(1, made.size());
    assertEquals(1, server.count("Register"));
    assertEquals(2, server.count("Enlist"));
    assertEquals(2, server.count("commitTransaction"));
  }

  @Test
  void theServerHearsWhatWasWritten() {
    try (Transaction txn = client.begin()) {
      Enlistment<String, String> out = txn.enlist(east);
      for (int i = 0; i < 3; ++i) out.send(record());
      out.send(new ProducerRecord<>("other", 0, "k", "v"));
      out.sendOffsets(
          Map.of(new TopicPartition("in", 0), new OffsetAndMetadata(7)),
          new ConsumerGroupMetadata("g"));
      out.sendOffsets(Map.of(), new ConsumerGroupMetadata("nothing"));
      txn.commit().orThrow();
    }
    EnlistedWork work = server.commits.get(0).getEnlisted(0);
    Map<String, Long> offsets = new java.util.HashMap<>();
    work.getPartitionsList().forEach(it -> offsets.put(it.getTopic(), it.getOffset()));
    assertEquals(Map.of("orders", 2L, "other", 0L), offsets);
    assertEquals(List.of("g"), work.getGroupIdsList());
    assertFalse(work.getReadOnly());
  }

  @Test
  void nothingWrittenIsReadOnly() {
    try (Transaction txn = client.begin()) {
      txn.enlist(east);
      assertEquals(Outcome.COMMITTED, txn.commit().outcome());
    }
    assertTrue(server.commits.get(0).getEnlisted(0).getReadOnly());
    run();
    assertEquals(1, made.size());
  }

  @Test
  void commitWaitsForRecordsThatFlushLeaves() throws Exception {
    CountDownLatch flushed = new CountDownLatch(1);
    List<Runnable> late = new ArrayList<>();
    EnlistedProducer<String, String> slow =
        EnlistedProducer.create(
            client,
            "east",
            "id-east",
            ProducerProtocol.TV1,
            () ->
                new RecordingProducer(server) {
                  @Override
                  public java.util.concurrent.Future<RecordMetadata> send(
                      ProducerRecord<String, String> record, Callback callback) {
                    late.add(() -> super.send(record, callback));
                    return new CompletableFuture<>();
                  }

                  @Override
                  public void flush() {
                    flushed.countDown();
                  }
                });
    Transaction txn = client.begin();
    txn.enlist(slow).send(record());
    CompletableFuture<TxnResult> commit = CompletableFuture.supplyAsync(txn::commit);
    flushed.await();
    assertEquals(0, server.count("Commit"));
    late.get(0).run();
    assertEquals(Outcome.COMMITTED, commit.get().outcome());
    assertEquals(1, server.commits.get(0).getEnlisted(0).getPartitionsCount());
  }

  // ---- Never an end of its own before a definite answer ----

  @Test
  void endsOnlyAfterADefiniteAnswer() {
    server.refuse("Commit", FakeServer.outcomeUnknown());
    server.lose("Commit");
    server.answer("Commit", FakeServer.committing());
    server.answer("Commit", FakeServer.committing());
    assertEquals(Outcome.COMMITTED, run().outcome());
    assertEquals(
        List.of("Commit", "Commit", "Commit", "Commit", "commitTransaction"), afterCommit());
    server.commits.forEach(it -> assertEquals(server.commits.get(0), it));
  }

  @Test
  void withoutAnAnswerTheProducerNeverEnds() {
    for (int i = 0; i < 1000; ++i) server.refuse("Commit", FakeServer.outcomeUnknown());
    Transaction txn = client.begin();
    txn.enlist(east).send(record());
    LockstepException unknown = assertThrows(LockstepException.class, () -> txn.commit(SHORT));
    assertEquals(Effect.UNKNOWN, unknown.effect());
    txn.close();
    assertEquals(0, server.count("commitTransaction") + server.count("abortTransaction"));
    assertEquals(0, server.count("Abort"));
    assertEquals(0, server.count("close"));
    assertEquals(1, server.count("discard"));
    server.forget("Commit");
    assertEquals(Outcome.COMMITTED, txn.commit().outcome());
    assertEquals(0, server.count("commitTransaction"));
    assertMadeAnew();
  }

  @Test
  void decidedAndUnderWayIsNoAnswerForTheProducer() {
    for (int i = 0; i < 1000; ++i) server.answer("Commit", FakeServer.committing());
    Transaction txn = client.begin();
    txn.enlist(east).send(record());
    assertEquals(Outcome.COMMITTING, txn.commit(SHORT).outcome());
    txn.close();
    assertEquals(0, server.count("commitTransaction") + server.count("abortTransaction"));
    assertEquals(1, server.count("discard"));
    assertMadeAnew();
  }

  @Test
  void anAbortWithoutAnAnswerDoesNotEndTheProducerEither() {
    client.close();
    client = LockstepClient.connect(server.address(), ClientTest.IMPATIENT);
    east = producer("east");
    for (int i = 0; i < 1000; ++i) server.refuse("Abort", FakeServer.outcomeUnknown());
    try (Transaction txn = client.begin()) {
      txn.enlist(east).send(record());
    }
    assertEquals(0, server.count("abortTransaction") + server.count("close"));
    assertEquals(1, server.count("discard"));
    assertMadeAnew();
  }

  @Test
  void closingTheProducerWithinATransactionDoesNotEndItsOwn() {
    Transaction txn = client.begin();
    Enlistment<String, String> out = txn.enlist(east);
    out.send(record());
    east.close();
    assertEquals(1, server.count("discard"));
    assertEquals(0, server.count("close"));
    assertThrows(IllegalStateException.class, () -> out.send(record()));
    txn.close();
    assertEquals(0, server.count("abortTransaction"));
    assertThrows(IllegalStateException.class, () -> client.begin().enlist(east));
  }

  // ---- Outcomes ----

  @Test
  void abortedIsSaidByTheProducerToo() {
    server.answer("Commit", FakeServer.aborted(Txn.AbortReason.ABORT_REASON_VOTE_MISMATCH, "east"));
    assertEquals("VOTE_MISMATCH", run().abort().reason());
    assertEquals(List.of("abortTransaction"), afterCommit());
    run();
    assertEquals(1, made.size());
  }

  @Test
  void leavingTheScopeAborts() {
    try (Transaction txn = client.begin()) {
      txn.enlist(east).send(record());
    }
    List<String> log = server.log();
    assertEquals(List.of("Abort", "abortTransaction"), log.subList(log.size() - 2, log.size()));
  }

  @Test
  void recordsUnderWayWhenItAbortsLeaveTheProducerBehind() {
    EnlistedProducer<String, String> slow =
        EnlistedProducer.create(
            client,
            "east",
            "id-east",
            ProducerProtocol.TV2,
            () ->
                new RecordingProducer(server) {
                  @Override
                  public java.util.concurrent.Future<RecordMetadata> send(
                      ProducerRecord<String, String> record, Callback callback) {
                    return new CompletableFuture<>();
                  }
                });
    try (Transaction txn = client.begin()) {
      txn.enlist(slow).send(record());
    }
    List<String> log = server.log();
    assertEquals(
        List.of("Abort", "abortTransaction", "discard"), log.subList(log.size() - 3, log.size()));
  }

  @Test
  void committedStaysCommittedWhateverTheProducerSays() {
    prepare = producer -> producer.endFails = new KafkaException("INVALID_TXN_STATE");
    assertEquals(Outcome.COMMITTED, run().outcome());
    assertEquals(List.of("commitTransaction", "discard"), afterCommit());
    prepare = producer -> {};
    assertMadeAnew();
  }

  @Test
  void abortedStaysAbortedWhateverTheProducerSays() {
    prepare = producer -> producer.endFails = new KafkaException("fenced");
    server.answer("Commit", FakeServer.aborted(Txn.AbortReason.ABORT_REASON_TXN_TIMEOUT, ""));
    assertEquals(Outcome.ABORTED, run().outcome());
    prepare = producer -> {};
    assertMadeAnew();
  }

  @Test
  void whatTheServerWantsReinitialisedIsMadeAnew() {
    server.reinitRequired = true;
    assertEquals(Outcome.COMMITTED, run().outcome());
    assertEquals(List.of("discard"), afterCommit());
    assertMadeAnew();
  }

  @Test
  void heuristicIsToldAndTheProducerMadeAnew() {
    server.answer(
        "Commit",
        CommitResponse.newBuilder().setOutcome(Txn.Outcome.OUTCOME_HEURISTIC).build());
    TxnResult result = run();
    assertEquals(Outcome.HEURISTIC, result.outcome());
    assertThrows(NotCommittedException.class, result::orThrow);
    assertEquals(List.of("discard"), afterCommit());
    assertMadeAnew();
  }

  // ---- What could not be written ----

  private void assertNotCommitted(TxnResult result) {
    assertEquals(Outcome.ABORTED, result.outcome());
    assertEquals("east", result.abort().cluster());
    assertTrue(result.abort().message().contains("the culprit"), result.abort().message());
    assertEquals(0, server.count("Commit"));
    assertEquals(1, server.count("Abort"));
    assertEquals(1, server.count("abortTransaction"));
    prepare = producer -> {};
    assertMadeAnew();
  }

  @Test
  void aRecordThatFailsAborts() {
    prepare = producer -> producer.sendFails = new TimeoutException("the culprit");
    assertNotCommitted(run());
  }

  @Test
  void aRecordThatIsRefusedAbortsAlsoWhenCaught() {
    prepare = producer -> producer.sendThrows = new SerializationException("the culprit");
    try (Transaction txn = client.begin()) {
      Enlistment<String, String> out = txn.enlist(east);
      assertThrows(SerializationException.class, () -> out.send(record()));
      assertNotCommitted(txn.commit());
    }
  }

  @Test
  void offsetsThatFailAbort() {
    prepare = producer -> producer.offsetsFail = new KafkaException("the culprit");
    try (Transaction txn = client.begin()) {
      Enlistment<String, String> out = txn.enlist(east);
      assertThrows(
          KafkaException.class,
          () ->
              out.sendOffsets(
                  Map.of(new TopicPartition("in", 0), new OffsetAndMetadata(7)),
                  new ConsumerGroupMetadata("g")));
      assertNotCommitted(txn.commit());
    }
  }

  // ---- Enlist ----

  @Test
  void fencedRegistersAnewAndTheTransactionGoesOn() {
    run();
    server.voidRegistrations();
    assertEquals(Outcome.COMMITTED, run().outcome());
    assertEquals(2, made.size());
    assertEquals(2, server.count("Register"));
    assertEquals(1, server.count("discard"));
  }

  @Test
  void fencedTwiceIsTold() {
    server.refuse("Enlist", FakeServer.fenced());
    server.refuse("Enlist", FakeServer.fenced());
    try (Transaction txn = client.begin()) {
      assertEquals(
          "FENCED",
          assertThrows(LockstepException.class, () -> txn.enlist(east)).reason());
      txn.enlist(east).send(record()); // The transaction goes on.
      assertEquals(Outcome.COMMITTED, txn.commit().outcome());
    }
    assertEquals(3, server.count("Register"));
  }

  @Test
  void aServerThatRestartedGetsANewRegistration() {
    run();
    server.restart();
    assertEquals(Outcome.COMMITTED, run().outcome());
    assertEquals(2, made.size());
    assertEquals(2, server.count("Register"));
  }

  @Test
  void anotherIncarnationInTheAnswerIsARestart() {
    run();
    server.answer("Enlist", EnlistResponse.newBuilder().setIncarnation(99).build());
    try (Transaction txn = client.begin()) {
      assertThrows(LockstepException.class, () -> txn.enlist(east));
      assertThrows(LockstepException.class, txn::commit);
    }
    assertEquals(1, server.count("discard"));
    assertEquals(1, server.count("Abort"));
    assertMadeAnew();
  }

  @Test
  void theTransactionOfARestartedServerIsGone() {
    Transaction txn = client.begin();
    server.restart();
    assertEquals(
        "WRONG_STATE",
        assertThrows(LockstepException.class, () -> txn.enlist(east)).reason());
    txn.close();
    assertEquals(Outcome.COMMITTED, run().outcome());
  }

  @Test
  void enlistIsTriedAgainWhileTheEndBeforeIsNotDurable() {
    server.refuse(
        "Enlist",
        FakeServer.error(io.grpc.Status.Code.UNAVAILABLE, "UNAVAILABLE", "NONE", 1));
    server.lose("Enlist");
    assertEquals(Outcome.COMMITTED, run().outcome());
    assertEquals(3, server.count("Enlist"));
    assertEquals(1, made.size());
  }

  @Test
  void anEnlistOfUnknownEffectLeavesOnlyTheAbort() {
    client.close();
    client = LockstepClient.connect(server.address(), ClientTest.IMPATIENT);
    east = producer("east");
    east.warmUp();
    for (int i = 0; i < 1000; ++i) server.lose("Enlist");
    try (Transaction txn = client.begin()) {
      assertThrows(LockstepException.class, () -> txn.enlist(east));
      assertThrows(LockstepException.class, txn::commit);
    }
    assertEquals(1, server.count("Abort"));
    assertEquals(0, server.count("begin") + server.count("Commit"));
  }

  @Test
  void aProducerThatCannotBeInitialisedIsClosed() {
    prepare = producer -> producer.initFails = new TimeoutException("no broker");
    try (Transaction txn = client.begin()) {
      assertThrows(TimeoutException.class, () -> txn.enlist(east));
      assertEquals(1, server.count("discard"));
      prepare = producer -> {};
      txn.enlist(east).send(record());
      assertEquals(Outcome.COMMITTED, txn.commit().outcome());
    }
    assertEquals(2, server.count("Register"));
  }

  @Test
  void aProducerThatCannotBeginLeavesOnlyTheAbort() {
    prepare = producer -> producer.beginFails = new KafkaException("fatal");
    try (Transaction txn = client.begin()) {
      assertThrows(KafkaException.class, () -> txn.enlist(east));
      assertThrows(LockstepException.class, txn::commit);
    }
    assertEquals(1, server.count("Abort"));
    prepare = producer -> {};
    assertEquals(Outcome.COMMITTED, run().outcome());
  }

  // ---- Use ----

  @Test
  void severalProducersAndTheServersOwnInOneTransaction() {
    try (EnlistedProducer<String, String> west = producer("west")) {
      try (Transaction txn = client.begin()) {
        txn.enlist(east).send(record());
        txn.enlist(west).send(record());
        txn.produce("north", KafkaRecord.of("orders", "k", "v"));
        assertEquals(Outcome.COMMITTED, txn.commit().outcome());
      }
    }
    assertEquals(2, server.commits.get(0).getEnlistedCount());
    assertEquals(2, server.count("commitTransaction"));
  }

  @Test
  void oneTransactionAtATime() {
    try (Transaction first = client.begin();
        Transaction second = client.begin()) {
      first.enlist(east);
      assertThrows(IllegalStateException.class, () -> second.enlist(east));
      first.commit();
      second.enlist(east);
    }
  }

  @Test
  void noWorkAfterTheEnd() {
    Transaction txn = client.begin();
    Enlistment<String, String> out = txn.enlist(east);
    txn.commit();
    assertThrows(IllegalStateException.class, () -> out.send(record()));
    assertThrows(
        IllegalStateException.class,
        () ->
            out.sendOffsets(
                Map.of(new TopicPartition("in", 0), new OffsetAndMetadata(7)),
                new ConsumerGroupMetadata("g")));
  }

  @Test
  void decidedDoesNotGoWithEnlistedProducers() {
    try (Transaction txn = client.begin()) {
      txn.enlist(east).send(record());
      assertThrows(IllegalArgumentException.class, () -> txn.commit(Wait.DECIDED, SHORT));
      assertEquals(Outcome.COMMITTED, txn.commit().outcome());
    }
  }

  @Test
  void theProtocolFollowsFromKafkaClients() {
    assertEquals(ProducerProtocol.TV1, ProducerProtocol.of("3.9.1"));
    assertEquals(ProducerProtocol.TV2, ProducerProtocol.of("4.0.0"));
    assertEquals(ProducerProtocol.TV2, ProducerProtocol.of("11.2.0-x"));
    assertThrows(IllegalStateException.class, () -> ProducerProtocol.of("unknown"));
    assertEquals(
        ProducerProtocol.of(System.getProperty("kafka.version")),
        ProducerProtocol.ofKafkaClients());
  }

  @Test
  void aConfigurationNeedsATransactionalId() {
    assertThrows(
        IllegalArgumentException.class, () -> EnlistedProducer.create(client, "east", Map.of()));
  }
}
