package dev.lockstep.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;

/**
 * So many transactions on one transactional.id that its epoch rolls over twice, where each end takes
 * an epoch (TV2): an EndTxn of the server's gives it another producer id then, and its producer goes
 * on with that. Every fifth transaction is one of the other cluster, too.
 *
 * <p>Takes many minutes. Its figures go to standard output.
 */
class EnduranceIT extends OnClusters {
  private static final int TRANSACTIONS = Integer.getInteger("transactions", 70_000);
  /** At which an id gets another producer id (Kafka's {@code Short.MAX_VALUE - 1}). */
  private static final int LAST_EPOCH = Short.MAX_VALUE - 1;

  private final String topic = "endurance";
  private final AtomicInteger made = new AtomicInteger();
  private final Set<Long> producerIds = new LinkedHashSet<>(); // Of a.

  private EnlistedProducer<String, String> producer(String cluster) {
    Map<String, Object> config =
        Map.of(
            "bootstrap.servers", stack.bootstrap(cluster),
            "transactional.id", topic,
            "linger.ms", 0,
            "transaction.timeout.ms", 600_000);
    return EnlistedProducer.create(
        client,
        cluster,
        topic,
        ProducerProtocol.ofKafkaClients(),
        () -> {
          System.out.printf("producer %d, on %s%n", made.incrementAndGet(), cluster);
          return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        });
  }

  private static Outcome expected(int i) {
    return i % 10 == 9 ? Outcome.ABORTED : Outcome.COMMITTED;
  }

  private static boolean isOnBoth(int i) {
    return i % 10 >= 8;
  }

  /** Else it is enlisted all the same, and its end takes no epoch. */
  private static boolean writesOnA(int i) {
    return i % 40 != 8;
  }

  private TxnResult run(
      int i, EnlistedProducer<String, String> a, EnlistedProducer<String, String> b) {
    try (Transaction txn = client.begin()) {
      String value = expected(i) + " " + i;
      Enlistment<String, String> onA = txn.enlist(a);
      if (writesOnA(i)) onA.send(new ProducerRecord<>(topic, value));
      if (isOnBoth(i)) txn.enlist(b).send(new ProducerRecord<>(topic, value));
      return expected(i) == Outcome.ABORTED ? txn.abort() : txn.commit();
    }
  }

  private void report(Admin admin, int done, double seconds) throws Exception {
    TransactionDescription now =
        admin.describeTransactions(Set.of(topic)).description(topic).get();
    producerIds.add(now.producerId());
    System.out.printf(
        "%d of %d transactions, %.0f s, %.0f/s; producer id %d, epoch %d%n",
        done, TRANSACTIONS, seconds, done / seconds, now.producerId(), now.producerEpoch());
  }

  @Test
  void anIdThatRunsOutOfEpochsGoesOn() throws Exception {
    stack.topic(topic);
    long start = System.nanoTime();
    try (EnlistedProducer<String, String> a = producer("a");
        EnlistedProducer<String, String> b = producer("b");
        Admin admin = Admin.create(Map.of("bootstrap.servers", stack.bootstrap("a")))) {
      for (int i = 0; i < TRANSACTIONS; ++i) {
        TxnResult result = run(i, a, b);
        assertEquals(expected(i), result.outcome(), result::describe);
        if ((i + 1) % 1000 == 0) report(admin, i + 1, (System.nanoTime() - start) / 1e9);
      }
    }
    check();
  }

  private void check() {
    List<String> onA = new ArrayList<>();
    List<String> onB = new ArrayList<>();
    for (int i = 0; i < TRANSACTIONS; ++i) {
      if (expected(i) == Outcome.ABORTED) continue;
      if (writesOnA(i)) onA.add(Outcome.COMMITTED + " " + i);
      if (isOnBoth(i)) onB.add(Outcome.COMMITTED + " " + i);
    }
    // Not assertEquals: it would print them all.
    assertTrue(onA.equals(stack.committed("a", topic)), "a shows other records");
    assertTrue(onB.equals(stack.committed("b", topic)), "b shows other records");
    System.out.printf(
        "%d records on a and %d on b, as told; %d producers; producer ids of a: %s%n",
        onA.size(), onB.size(), made.get(), producerIds);
    // An EndTxn of the server's without an answer costs one: a machine that is slow enough has some.
    assertTrue(made.get() <= 2 + TRANSACTIONS / 1000, () -> made + " producers");
    if (ProducerProtocol.ofKafkaClients() == ProducerProtocol.TV1) return;
    int rollOvers = TRANSACTIONS / 40 * 39 / LAST_EPOCH;
    assertTrue(producerIds.size() > rollOvers, producerIds::toString);
  }
}
