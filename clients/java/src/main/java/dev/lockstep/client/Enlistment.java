package dev.lockstep.client;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Future;
import lockstep.v1.CoordinatorOuterClass.EnlistedWork;
import lockstep.v1.CoordinatorOuterClass.WrittenPartition;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.TimeoutException;

/**
 * What an {@link EnlistedProducer} writes in one transaction, of {@link Transaction#enlist}.
 * Thread-safe; no work is taken once the transaction is being ended.
 *
 * <p>If any record or offset could not be written, the transaction does not commit, also where the
 * caller has caught the exception.
 */
public final class Enlistment<K, V> {
  private static final System.Logger LOG = System.getLogger(Enlistment.class.getName());

  /** Without a flush: records leave within linger.ms. */
  private static final Duration SETTLING = Duration.ofSeconds(1);

  private final EnlistedProducer<K, V> owner;
  private final Producer<K, V> producer;
  private final String txnId;
  private final String registrationId;
  private final Participant participant = new End();

  // Guarded by this.
  private final Map<TopicPartition, Long> highestOffsets = new HashMap<>();
  private final Set<String> groups = new TreeSet<>();
  private boolean open = true;
  private long unacknowledged;
  private Exception failure; // The first.
  private boolean abandoned;
  private boolean late; // Something may reach the broker after the server has looked.

  Enlistment(
      EnlistedProducer<K, V> owner, Producer<K, V> producer, String txnId, String registrationId) {
    this.owner = owner;
    this.producer = producer;
    this.txnId = txnId;
    this.registrationId = registrationId;
  }

  /** As {@link Producer#send(ProducerRecord)}. */
  public Future<RecordMetadata> send(ProducerRecord<K, V> record) {
    return send(record, null);
  }

  /** As {@link Producer#send(ProducerRecord, Callback)}. */
  public Future<RecordMetadata> send(ProducerRecord<K, V> record, Callback callback) {
    synchronized (this) {
      checkOpen();
      ++unacknowledged;
    }
    try {
      return producer.send(
          record,
          (metadata, exception) -> {
            acknowledged(metadata, exception);
            if (callback != null) callback.onCompletion(metadata, exception);
          });
    } catch (RuntimeException e) {
      acknowledged(null, e); // KafkaProducer either throws or calls back.
      throw e;
    }
  }

  /**
   * As {@link Producer#sendOffsetsToTransaction}: the group must live on this producer's cluster.
   *
   * @param group {@code consumer.groupMetadata()}, taken after the poll that gave the records
   */
  public void sendOffsets(
      Map<TopicPartition, OffsetAndMetadata> offsets, ConsumerGroupMetadata group) {
    if (offsets.isEmpty()) return;
    synchronized (this) {
      checkOpen();
      groups.add(group.groupId());
    }
    try {
      producer.sendOffsetsToTransaction(offsets, group);
    } catch (RuntimeException e) {
      fail(e);
      throw e;
    }
  }

  private void checkOpen() {
    if (!open) throw new IllegalStateException("transaction " + txnId + " takes no more work");
  }

  private synchronized void acknowledged(RecordMetadata metadata, Exception exception) {
    if (exception != null) {
      fail(exception);
    } else {
      TopicPartition partition = new TopicPartition(metadata.topic(), metadata.partition());
      highestOffsets.merge(partition, metadata.hasOffset() ? metadata.offset() : -1, Math::max);
    }
    if (--unacknowledged == 0) notifyAll();
  }

  private synchronized void fail(Exception exception) {
    if (failure == null) failure = exception;
  }

  private synchronized boolean unusable() {
    return failure != null || abandoned || late;
  }

  private synchronized boolean isAbandoned() {
    return abandoned;
  }

  // ---- For the transaction ----

  String txnId() {
    return txnId;
  }

  Participant participant() {
    return participant;
  }

  /** The producer's own begin, which no broker hears of. */
  void begin() {
    producer.beginTransaction();
  }

  private final class End implements Participant {
    @Override
    public String cluster() {
      return owner.cluster();
    }

    @Override
    public void close() {
      synchronized (Enlistment.this) {
        open = false;
      }
    }

    @Override
    public Optional<Exception> flush(Duration patience) {
      try {
        if (!unusable()) producer.flush();
        await(System.nanoTime() + patience.toNanos());
      } catch (RuntimeException e) {
        fail(e);
      }
      synchronized (Enlistment.this) {
        if (abandoned) fail(new IllegalStateException("the producer is closed"));
        return Optional.ofNullable(failure);
      }
    }

    @Override
    public void settle() {
      boolean done = false;
      try {
        await(System.nanoTime() + SETTLING.toNanos());
        done = true;
      } catch (RuntimeException e) {
        LOG.log(System.Logger.Level.DEBUG, "transaction {0} aborts: {1}", txnId, e);
      }
      synchronized (Enlistment.this) {
        late = !done;
      }
    }

    /** What flush may leave: records of a thread that is still in send, and of batches split. */
    private void await(long deadline) {
      synchronized (Enlistment.this) {
        while (unacknowledged > 0 && failure == null) {
          long millis = (deadline - System.nanoTime()) / 1_000_000;
          if (millis <= 0) throw new TimeoutException(unacknowledged + " unacknowledged records");
          try {
            Enlistment.this.wait(millis);
          } catch (InterruptedException e) {
            throw new InterruptException(e);
          }
        }
      }
    }

    @Override
    public EnlistedWork work() {
      EnlistedWork.Builder work = EnlistedWork.newBuilder().setRegistrationId(registrationId);
      synchronized (Enlistment.this) {
        highestOffsets.forEach(
            (partition, offset) -> {
              WrittenPartition.Builder written =
                  work.addPartitionsBuilder()
                      .setTopic(partition.topic())
                      .setPartition(partition.partition());
              if (offset >= 0) written.setOffset(offset);
            });
        work.addAllGroupIds(groups);
        work.setReadOnly(highestOffsets.isEmpty() && groups.isEmpty());
      }
      return work.build();
    }

    @Override
    public void end(TxnResult result) {
      owner.release(Enlistment.this, ended(result));
    }

    /** False: the producer must not go on. The outcome stands, whatever its own end says. */
    private boolean ended(TxnResult result) {
      boolean reinit =
          result.branches().stream()
              .anyMatch(it -> it.cluster().equals(owner.cluster()) && it.reinitRequired());
      if (reinit || isAbandoned()) return false;
      try {
        switch (result.outcome()) {
          case COMMITTED -> producer.commitTransaction();
          // Also of one that does not go on: what came late holds back no reader then.
          case ABORTED -> producer.abortTransaction();
          default -> {
            return false;
          }
        }
        return !unusable();
      } catch (RuntimeException e) {
        LOG.log(
            System.Logger.Level.INFO,
            "transaction {0} is {1}; producer {2} could not say so itself, and is made anew: {3}",
            txnId,
            result.outcome(),
            owner.transactionalId(),
            e);
        return false;
      }
    }

    @Override
    public void abandon() {
      synchronized (Enlistment.this) {
        open = false;
        abandoned = true;
      }
      owner.release(Enlistment.this, false);
    }
  }
}
