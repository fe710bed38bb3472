package dev.lockstep.client;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import java.util.function.Supplier;
import lockstep.v1.CoordinatorGrpc.CoordinatorBlockingStub;
import lockstep.v1.CoordinatorOuterClass.EnlistRequest;
import lockstep.v1.CoordinatorOuterClass.EnlistResponse;
import lockstep.v1.CoordinatorOuterClass.RegisterProducerRequest;
import lockstep.v1.CoordinatorOuterClass.RegisterProducerResponse;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.Serializer;

/**
 * A transactional Kafka producer of this process that takes part in Lockstep's transactions: its
 * records go to the brokers directly, and only the end of its transactions is the server's.
 *
 * <pre>{@code
 * try (EnlistedProducer<String, String> east = EnlistedProducer.create(client, "east", config)) {
 *   try (Transaction txn = client.begin()) {
 *     Enlistment<String, String> orders = txn.enlist(east);
 *     orders.send(new ProducerRecord<>("orders", "42", "ten apples"));
 *     txn.commit().orThrow();
 *   }
 * }
 * }</pre>
 *
 * <p>It owns its producer: it registers the transactional.id with the server, makes the producer,
 * initialises it, ends its transactions as the server decided, and makes it anew whenever what was
 * before must not go on. So nobody else may initialise or end anything under its transactional.id:
 * give each instance an id of its own, the same after each restart. Two that live at once with one
 * id fence each other in turn.
 *
 * <p>One transaction at a time. Thread-safe, but the thread that has the transaction ends it.
 */
public final class EnlistedProducer<K, V> implements AutoCloseable {
  private static final System.Logger LOG = System.getLogger(EnlistedProducer.class.getName());

  /**
   * Kafka aborts what is open for longer, decided or not. The brokers' default for the longest that
   * they grant; Kafka's own default for producers is a minute.
   */
  private static final int TRANSACTION_TIMEOUT_MS = 15 * 60 * 1000;

  private final Connection connection;
  private final String cluster;
  private final String transactionalId;
  private final ProducerProtocol protocol;
  private final Supplier<? extends Producer<K, V>> factory;

  private Producer<K, V> producer; // Null: to be made, under a new registration.
  private RegisterProducerResponse registration;
  private Enlistment<K, V> current; // Null: no transaction.
  private boolean closed;

  private EnlistedProducer(
      LockstepClient client,
      String cluster,
      String transactionalId,
      ProducerProtocol protocol,
      Supplier<? extends Producer<K, V>> factory) {
    this.connection = client.connection();
    this.cluster = Objects.requireNonNull(cluster);
    this.transactionalId = Objects.requireNonNull(transactionalId);
    this.protocol = Objects.requireNonNull(protocol);
    this.factory = Objects.requireNonNull(factory);
  }

  /**
   * Around a KafkaProducer of this configuration, which names the serializers.
   *
   * @param cluster its name in the server's configuration
   * @param config as of KafkaProducer; transactional.id is required. transaction.timeout.ms is 15
   *     minutes unless it is set here: when the server has decided and then cannot reach the
   *     cluster for longer than that, Kafka aborts what was to commit.
   */
  public static <K, V> EnlistedProducer<K, V> create(
      LockstepClient client, String cluster, Map<String, ?> config) {
    return create(client, cluster, config, null, null);
  }

  public static <K, V> EnlistedProducer<K, V> create(
      LockstepClient client,
      String cluster,
      Map<String, ?> config,
      Serializer<K> keySerializer,
      Serializer<V> valueSerializer) {
    Object id = config.get(ProducerConfig.TRANSACTIONAL_ID_CONFIG);
    if (id == null) throw new IllegalArgumentException("the configuration has no transactional.id");
    Map<String, Object> own = new HashMap<>(config);
    own.putIfAbsent(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG, TRANSACTION_TIMEOUT_MS);
    return create(
        client,
        cluster,
        id.toString(),
        ProducerProtocol.ofKafkaClients(),
        () -> new KafkaProducer<>(own, keySerializer, valueSerializer));
  }

  /**
   * Around a producer of another making: a subclass, one with interceptors set by hand, a
   * repackaged one.
   *
   * @param factory a new producer with this transactional.id at each call, not initialised
   * @param protocol the best that it speaks; a wrong word costs a new producer after each
   *     transaction, and never a wrong outcome
   */
  public static <K, V> EnlistedProducer<K, V> create(
      LockstepClient client,
      String cluster,
      String transactionalId,
      ProducerProtocol protocol,
      Supplier<? extends Producer<K, V>> factory) {
    return new EnlistedProducer<>(client, cluster, transactionalId, protocol, factory);
  }

  public String cluster() {
    return cluster;
  }

  public String transactionalId() {
    return transactionalId;
  }

  /**
   * Registers and initialises the producer now rather than in the first transaction: a wrong
   * configuration shows at once, and the first transaction is as fast as the others.
   */
  public synchronized void warmUp() {
    if (current == null) ready();
  }

  /** OK of Enlist: the producer may write. */
  synchronized Enlistment<K, V> enlist(String txnId) {
    if (current != null) {
      throw new IllegalStateException("the producer is in transaction " + current.txnId());
    }
    try {
      enlistOnce(txnId);
    } catch (LockstepException e) {
      if (!e.reason().equals("FENCED")) throw e;
      // Void, of an earlier start of the server, or to be renewed. Only once: fenced again, somebody
      // else has a producer with this id at work, and the caller should know.
      discard();
      try {
        enlistOnce(txnId);
      } catch (LockstepException again) {
        if (again.reason().equals("FENCED")) discard();
        throw again;
      }
    }
    current = new Enlistment<>(this, producer, txnId, registration.getRegistrationId());
    return current;
  }

  private void enlistOnce(String txnId) {
    ready();
    EnlistResponse answer =
        connection.call(
            CoordinatorBlockingStub::enlist,
            EnlistRequest.newBuilder()
                .setTxnId(txnId)
                .setRegistrationId(registration.getRegistrationId())
                .build());
    // Registrations do not outlive their server, so FENCED tells of a restart. Should another start
    // accept one all the same, its word is not taken: the transaction can only be aborted.
    if (answer.getIncarnation() != 0
        && answer.getIncarnation() != registration.getIncarnation()) {
      discard();
      throw LockstepException.wrongState("the server has restarted: begin anew")
          .with(LockstepException.Effect.UNKNOWN, "");
    }
  }

  /** A producer that is initialised under a registration. */
  private void ready() {
    if (closed) throw new IllegalStateException("closed");
    if (producer != null) return;
    Producer<K, V> made = factory.get();
    try {
      // Right before initTransactions: who initialises last owns the id.
      registration =
          connection.call(
              CoordinatorBlockingStub::registerProducer,
              RegisterProducerRequest.newBuilder()
                  .setCluster(cluster)
                  .setTransactionalId(transactionalId)
                  .setProtocol(Convert.protocol(protocol))
                  .build());
      made.initTransactions();
      producer = made;
    } finally {
      if (producer == null) closeWithoutEnd(made);
    }
  }

  /** The transaction is over. The producer goes on, unless {@code usable} is false. */
  synchronized void release(Enlistment<K, V> enlistment, boolean usable) {
    if (current != enlistment) return;
    current = null;
    if (!usable) discard();
  }

  private void discard() {
    Producer<K, V> old = producer;
    producer = null;
    registration = null;
    if (old != null) closeWithoutEnd(old);
  }

  /**
   * A producer that is given time to close aborts its transaction, which may be committed elsewhere:
   * so it gets none.
   */
  private void closeWithoutEnd(Producer<K, V> old) {
    try {
      old.close(Duration.ZERO);
    } catch (RuntimeException e) {
      LOG.log(System.Logger.Level.WARNING, "closing the producer " + transactionalId, e);
    }
  }

  /**
   * Closes the producer. If it still is in a transaction, that can only abort: close the transaction
   * first.
   */
  @Override
  public void close() {
    Producer<K, V> old;
    synchronized (this) {
      closed = true;
      old = producer;
      if (current != null) {
        current.participant().abandon();
        return;
      }
      producer = null;
    }
    if (old != null) old.close();
  }
}
