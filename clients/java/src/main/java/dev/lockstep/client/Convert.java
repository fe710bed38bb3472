package dev.lockstep.client;

import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import com.google.protobuf.Timestamp;
import com.google.protobuf.UnsafeByteOperations;
import java.time.Instant;
import java.util.List;
import lockstep.v1.CoordinatorOuterClass;
import lockstep.v1.CoordinatorOuterClass.CommitWait;
import lockstep.v1.CoordinatorOuterClass.OffsetsWork;
import lockstep.v1.CoordinatorOuterClass.ProduceWork;
import lockstep.v1.CoordinatorOuterClass.SendOffsetsRequest;
import lockstep.v1.Txn;

/** Between the API's messages and this client's values. */
final class Convert {
  private Convert() {}

  // ---- Towards the server ----

  static Duration duration(java.time.Duration value) {
    return Duration.newBuilder().setSeconds(value.getSeconds()).setNanos(value.getNano()).build();
  }

  static Timestamp timestamp(Instant value) {
    return Timestamp.newBuilder()
        .setSeconds(value.getEpochSecond())
        .setNanos(value.getNano())
        .build();
  }

  static CommitWait wait(Wait value) {
    return switch (value) {
      case COMPLETE -> CommitWait.COMMIT_WAIT_COMPLETE;
      case DECIDED -> CommitWait.COMMIT_WAIT_DECIDED;
    };
  }

  static CoordinatorOuterClass.ProducerProtocol protocol(ProducerProtocol value) {
    return switch (value) {
      case TV1 -> CoordinatorOuterClass.ProducerProtocol.PRODUCER_PROTOCOL_TV1;
      case TV2 -> CoordinatorOuterClass.ProducerProtocol.PRODUCER_PROTOCOL_TV2;
    };
  }

  static Txn.Record record(KafkaRecord value) {
    Txn.Record.Builder to = Txn.Record.newBuilder().setTopic(value.topic());
    if (value.partition() != null) to.setPartition(value.partition());
    if (value.key() != null) to.setKey(bytes(value.key()));
    if (value.value() != null) to.setValue(bytes(value.value()));
    if (value.timestamp() != null) to.setTimestamp(timestamp(value.timestamp()));
    for (KafkaRecord.Header header : value.headers()) {
      Txn.Header.Builder builder = to.addHeadersBuilder().setKey(header.key());
      if (header.value() != null) builder.setValue(bytes(header.value()));
    }
    return to.build();
  }

  static ProduceWork produceWork(Work value) {
    ProduceWork.Builder to = ProduceWork.newBuilder().setCluster(value.cluster());
    value.records().forEach(record -> to.addRecords(record(record)));
    return to.build();
  }

  static OffsetsWork offsetsWork(Work value) {
    GroupOffsets offsets = value.offsets();
    OffsetsWork.Builder to =
        OffsetsWork.newBuilder()
            .setCluster(value.cluster())
            .setKafkaClusterId(offsets.kafkaClusterId())
            .setGroup(group(offsets.group()))
            .setStandalone(offsets.group().standalone());
    offsets.offsets().forEach(offset -> to.addOffsets(offset(offset)));
    return to.build();
  }

  static SendOffsetsRequest.Builder sendOffsets(GroupOffsets value) {
    SendOffsetsRequest.Builder to =
        SendOffsetsRequest.newBuilder()
            .setKafkaClusterId(value.kafkaClusterId())
            .setGroup(group(value.group()))
            .setStandalone(value.group().standalone());
    value.offsets().forEach(offset -> to.addOffsets(offset(offset)));
    return to;
  }

  private static Txn.ConsumerGroup group(GroupOffsets.Group value) {
    Txn.ConsumerGroup.Builder to = Txn.ConsumerGroup.newBuilder().setGroupId(value.id());
    if (value.standalone()) return to.build();
    to.setGeneration(value.generation()).setMemberId(value.memberId());
    if (value.instanceId() != null) to.setGroupInstanceId(value.instanceId());
    return to.build();
  }

  private static Txn.Offset offset(GroupOffsets.Offset value) {
    Txn.Offset.Builder to =
        Txn.Offset.newBuilder()
            .setTopic(value.topic())
            .setPartition(value.partition())
            .setOffset(value.offset())
            .setMetadata(value.metadata() == null ? "" : value.metadata());
    if (value.leaderEpoch() != null) to.setLeaderEpoch(value.leaderEpoch());
    return to.build();
  }

  private static ByteString bytes(byte[] value) {
    return UnsafeByteOperations.unsafeWrap(value);
  }

  // ---- From the server ----

  static TxnResult result(
      String txnId,
      Txn.Outcome outcome,
      List<Txn.Branch> branches,
      Txn.Abort abort) {
    return new TxnResult(
        txnId, outcome(outcome), branches.stream().map(Convert::branch).toList(), abort(abort));
  }

  static TxnInfo info(Txn.Transaction value) {
    return new TxnInfo(
        value.getTxnId(),
        value.getLabel(),
        state(value.getState()),
        instant(value.getBeginTime()),
        instant(value.getExpireTime()),
        value.getBranchesList().stream().map(Convert::branch).toList(),
        abort(value.getAbort()));
  }

  static Instant instant(Timestamp value) {
    return Instant.ofEpochSecond(value.getSeconds(), value.getNanos());
  }

  private static Outcome outcome(Txn.Outcome value) {
    return switch (value) {
      case OUTCOME_COMMITTED -> Outcome.COMMITTED;
      case OUTCOME_ABORTED -> Outcome.ABORTED;
      case OUTCOME_COMMITTING -> Outcome.COMMITTING;
      case OUTCOME_HEURISTIC -> Outcome.HEURISTIC;
      default -> throw notUnderstood("outcome", value);
    };
  }

  private static TxnState state(Txn.TxnState value) {
    return switch (value) {
      case TXN_STATE_ACTIVE -> TxnState.ACTIVE;
      case TXN_STATE_PREPARING -> TxnState.PREPARING;
      case TXN_STATE_COMMITTING -> TxnState.COMMITTING;
      case TXN_STATE_COMMITTED -> TxnState.COMMITTED;
      case TXN_STATE_ABORTING -> TxnState.ABORTING;
      case TXN_STATE_ABORTED -> TxnState.ABORTED;
      case TXN_STATE_HEURISTIC -> TxnState.HEURISTIC;
      default -> throw notUnderstood("state", value);
    };
  }

  private static Branch branch(Txn.Branch value) {
    boolean enlisted = value.hasEnlisted();
    return new Branch(
        value.getCluster(),
        switch (value.getOutcome()) {
          case BRANCH_OUTCOME_COMMITTED -> BranchOutcome.COMMITTED;
          case BRANCH_OUTCOME_ABORTED -> BranchOutcome.ABORTED;
          case BRANCH_OUTCOME_UNKNOWN -> BranchOutcome.UNKNOWN;
          default -> BranchOutcome.PENDING;
        },
        value.getProblem(),
        enlisted
            ? value.getEnlisted().getTransactionalId()
            : value.getManaged().getTransactionalId(),
        enlisted,
        value.getEnlisted().getReinitRequired());
  }

  private static Abort abort(Txn.Abort value) {
    if (value.equals(Txn.Abort.getDefaultInstance())) return Abort.NONE;
    String name = value.getReason().name();
    String reason =
        switch (value.getReason()) {
          case ABORT_REASON_UNSPECIFIED -> "";
          case UNRECOGNIZED -> "REASON_" + value.getReasonValue();
          default -> name.substring("ABORT_REASON_".length());
        };
    return new Abort(reason, value.getCluster(), value.getMessage(), value.getRetryable());
  }

  /** A newer server's word. Whatever it means, it is not known here how the call ended. */
  private static LockstepException notUnderstood(String what, Enum<?> value) {
    return new LockstepException(
        LockstepException.Code.INTERNAL,
        LockstepException.Effect.UNKNOWN,
        "",
        "the server's " + what + " is not understood: " + value,
        null,
        null);
  }
}
