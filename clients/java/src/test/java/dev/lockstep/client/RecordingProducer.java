package dev.lockstep.client;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringSerializer;

/** Kafka's MockProducer, which writes what it is told into the server's log, and fails on demand. */
class RecordingProducer extends MockProducer<String, String> {
  private final FakeServer server;
  RuntimeException initFails;
  RuntimeException beginFails;
  RuntimeException sendThrows;
  RuntimeException sendFails;
  RuntimeException offsetsFail;
  RuntimeException endFails;
  private boolean ending;

  RecordingProducer(FakeServer server) {
    super(true, null, new StringSerializer(), new StringSerializer());
    this.server = server;
  }

  private void told(String what, RuntimeException failure) {
    server.note(what);
    if (failure != null) throw failure;
  }

  @Override
  public void initTransactions() {
    told("init", initFails);
    super.initTransactions();
  }

  @Override
  public void beginTransaction() {
    told("begin", beginFails);
    super.beginTransaction();
  }

  @Override
  public Future<RecordMetadata> send(ProducerRecord<String, String> record, Callback callback) {
    told("send", sendThrows);
    if (sendFails == null) return super.send(record, callback);
    callback.onCompletion(null, sendFails);
    return java.util.concurrent.CompletableFuture.failedFuture(sendFails);
  }

  @Override
  public void sendOffsetsToTransaction(
      Map<org.apache.kafka.common.TopicPartition, OffsetAndMetadata> offsets,
      ConsumerGroupMetadata group) {
    told("offsets", offsetsFail);
    super.sendOffsetsToTransaction(offsets, group);
  }

  @Override
  public void flush() {
    if (!ending) told("flush", null); // MockProducer's own end flushes.
    super.flush();
  }

  @Override
  public void commitTransaction() {
    told("commitTransaction", endFails);
    ending = true;
    super.commitTransaction();
    ending = false;
  }

  @Override
  public void abortTransaction() {
    told("abortTransaction", endFails);
    ending = true;
    super.abortTransaction();
    ending = false;
  }

  @Override
  public void close() {
    server.note("close");
    super.close(Duration.ZERO);
  }

  @Override
  public void close(Duration timeout) {
    server.note(timeout.isZero() ? "discard" : "close");
    super.close(timeout);
  }
}
