package dev.lockstep.client;

import com.google.protobuf.Any;
import com.google.protobuf.Duration;
import com.google.protobuf.Timestamp;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.function.Supplier;
import lockstep.v1.CoordinatorGrpc;
import lockstep.v1.CoordinatorOuterClass.*;
import lockstep.v1.Txn;
import lockstep.v1.Txn.Outcome;

/**
 * A Coordinator that keeps its transactions in a map and calls no cluster, over a real connection.
 * Its calls fail, or are answered otherwise, as the test says beforehand; {@link #log} has them in
 * order, together with what the test's producers do.
 */
final class FakeServer extends CoordinatorGrpc.CoordinatorImplBase implements AutoCloseable {
  /** What becomes of one call. */
  private record Fate(boolean carriedOut, Throwable error, Object answer) {
    boolean answered() {
      return error != null || answer != null;
    }
  }

  static final class Known {
    final List<Txn.Record> records = new ArrayList<>();
    final List<Txn.Offset> offsets = new ArrayList<>();
    final List<String> clusters = new ArrayList<>();
    final Map<String, String> enlisted = new HashMap<>(); // Registration to cluster.
    List<EnlistedWork> work = List.of();
    long nextSequence = 0;
    Outcome outcome = Outcome.OUTCOME_UNSPECIFIED;
  }

  final List<String> log = new ArrayList<>();
  final Map<String, Known> txns = new HashMap<>();
  final List<RegisterProducerRequest> registered = new ArrayList<>();
  final List<ExecuteRequest> executed = new ArrayList<>();
  final List<CommitRequest> commits = new ArrayList<>();
  boolean reinitRequired = false;

  private final Map<String, Queue<Fate>> fates = new HashMap<>();
  private final Map<String, String> registrations = new HashMap<>(); // The valid ones, to clusters.
  private long incarnation = 1;
  private int last = 0;
  private Server server;

  FakeServer() throws IOException {
    listen(0);
  }

  private void listen(int port) throws IOException {
    server =
        Grpc.newServerBuilderForPort(port, InsecureServerCredentials.create())
            .addService(this)
            .directExecutor()
            .build()
            .start();
  }

  String address() {
    return "127.0.0.1:" + server.getPort();
  }

  @Override
  public void close() throws InterruptedException {
    server.shutdownNow().awaitTermination();
  }

  void comeBack(int port) throws IOException {
    listen(port);
  }

  int port() {
    return server.getPort();
  }

  // ---- What the test says beforehand, for the next calls of a method ----

  /** The call does nothing and fails. */
  synchronized void refuse(String method, Throwable error) {
    fate(method, new Fate(false, error, null));
  }

  /** The call is carried out, and its answer lost. */
  synchronized void lose(String method) {
    fate(method, new Fate(true, Status.UNAVAILABLE.asRuntimeException(), null));
  }

  /** The call does nothing and is answered so. */
  synchronized void answer(String method, Object answer) {
    fate(method, new Fate(false, null, answer));
  }

  /** The call is carried out, and not answered for as long as its caller waits. */
  synchronized void hold(String method) {
    fate(method, new Fate(true, null, null));
  }

  /** What was said of the method's next calls. */
  synchronized void forget(String method) {
    fates.remove(method);
  }

  private void fate(String method, Fate fate) {
    fates.computeIfAbsent(method, it -> new ArrayDeque<>()).add(fate);
  }

  /** As after a kill -9: open transactions and registrations are gone. */
  synchronized void restart() {
    ++incarnation;
    registrations.clear();
    txns.values().stream()
        .filter(it -> it.outcome == Outcome.OUTCOME_UNSPECIFIED)
        .forEach(it -> it.outcome = Outcome.OUTCOME_ABORTED);
  }

  /** As a second process that registers the same id. */
  synchronized void voidRegistrations() {
    registrations.clear();
  }

  synchronized void note(String what) {
    log.add(what);
  }

  synchronized List<String> log() {
    return List.copyOf(log);
  }

  synchronized long count(String what) {
    return log.stream().filter(what::equals).count();
  }

  static Throwable error(Status.Code code, String reason, String effect, Integer retryMillis) {
    com.google.rpc.Status.Builder status =
        com.google.rpc.Status.newBuilder().setCode(code.value()).setMessage("told by the test");
    status.addDetails(
        Any.pack(
            ErrorInfo.newBuilder()
                .setDomain("lockstep")
                .setReason(reason)
                .putMetadata("effect", effect)
                .build()));
    if (retryMillis != null) {
      status.addDetails(
          Any.pack(
              RetryInfo.newBuilder()
                  .setRetryDelay(Duration.newBuilder().setNanos(retryMillis * 1_000_000))
                  .build()));
    }
    return StatusProto.toStatusRuntimeException(status.build());
  }

  static Throwable outcomeUnknown() {
    return error(Status.Code.UNAVAILABLE, "OUTCOME_UNKNOWN", "UNKNOWN", 1);
  }

  static Throwable wrongState() {
    return error(Status.Code.FAILED_PRECONDITION, "WRONG_STATE", "NONE", null);
  }

  static Throwable limitReached() {
    return error(Status.Code.RESOURCE_EXHAUSTED, "LIMIT_REACHED", "NONE", 1);
  }

  static Throwable fenced() {
    return error(Status.Code.FAILED_PRECONDITION, "FENCED", "NONE", null);
  }

  static CommitResponse committing() {
    return CommitResponse.newBuilder().setOutcome(Outcome.OUTCOME_COMMITTING).build();
  }

  static CommitResponse aborted(Txn.AbortReason reason, String cluster) {
    return CommitResponse.newBuilder()
        .setOutcome(Outcome.OUTCOME_ABORTED)
        .setAbort(
            Txn.Abort.newBuilder().setReason(reason).setCluster(cluster).setMessage("as told"))
        .build();
  }

  // ---- The calls ----

  @SuppressWarnings("unchecked")
  private synchronized <T> void serve(String method, StreamObserver<T> observer, Supplier<T> call) {
    log.add(method);
    Queue<Fate> queue = fates.get(method);
    Fate fate = queue == null ? null : queue.poll();
    try {
      T answer = fate == null || fate.carriedOut() ? call.get() : (T) fate.answer();
      if (fate != null && !fate.answered()) return;
      if (fate != null && fate.error() != null) {
        observer.onError(fate.error());
        return;
      }
      observer.onNext(answer);
      observer.onCompleted();
    } catch (RuntimeException e) {
      observer.onError(e);
    }
  }

  private static RuntimeException thrown(Throwable error) {
    return (RuntimeException) error;
  }

  private Known active(String id) {
    Known txn = txns.get(id);
    if (txn.outcome != Outcome.OUTCOME_UNSPECIFIED) throw thrown(wrongState());
    return txn;
  }

  @Override
  public void beginGlobalTxn(
      BeginGlobalTxnRequest request, StreamObserver<BeginGlobalTxnResponse> observer) {
    serve(
        "Begin",
        observer,
        () -> {
          String id = "t" + ++last;
          txns.put(id, new Known());
          return BeginGlobalTxnResponse.newBuilder()
              .setTxnId(id)
              .setExpireTime(Timestamp.newBuilder().setSeconds(1000))
              .build();
        });
  }

  /** Whether the work is new. */
  private boolean next(Known txn, long sequence) {
    if (sequence < txn.nextSequence) return false;
    if (sequence > txn.nextSequence) throw thrown(wrongState());
    ++txn.nextSequence;
    return true;
  }

  @Override
  public void produce(ProduceRequest request, StreamObserver<ProduceResponse> observer) {
    serve(
        "Produce",
        observer,
        () -> {
          Known txn = active(request.getTxnId());
          if (next(txn, request.getSequence())) {
            txn.records.addAll(request.getRecordsList());
            txn.clusters.add(request.getCluster());
          }
          return ProduceResponse.getDefaultInstance();
        });
  }

  @Override
  public void sendOffsets(SendOffsetsRequest request, StreamObserver<SendOffsetsResponse> observer) {
    serve(
        "SendOffsets",
        observer,
        () -> {
          Known txn = active(request.getTxnId());
          if (next(txn, request.getSequence())) txn.offsets.addAll(request.getOffsetsList());
          return SendOffsetsResponse.getDefaultInstance();
        });
  }

  @Override
  public void commit(CommitRequest request, StreamObserver<CommitResponse> observer) {
    commits.add(request);
    serve(
        "Commit",
        observer,
        () -> {
          Known txn = txns.get(request.getTxnId());
          if (txn.outcome == Outcome.OUTCOME_UNSPECIFIED) {
            if (request.getEnlistedCount() != txn.enlisted.size()) {
              throw Status.INVALID_ARGUMENT.asRuntimeException();
            }
            txn.work = request.getEnlistedList();
            txn.outcome = Outcome.OUTCOME_COMMITTED;
          }
          return CommitResponse.newBuilder()
              .setOutcome(txn.outcome)
              .addAllBranches(branches(txn))
              .build();
        });
  }

  @Override
  public void abort(AbortRequest request, StreamObserver<AbortResponse> observer) {
    serve(
        "Abort",
        observer,
        () -> {
          Known txn = txns.get(request.getTxnId());
          if (txn.outcome == Outcome.OUTCOME_UNSPECIFIED) txn.outcome = Outcome.OUTCOME_ABORTED;
          AbortResponse.Builder answer =
              AbortResponse.newBuilder().setOutcome(txn.outcome).addAllBranches(branches(txn));
          if (txn.outcome == Outcome.OUTCOME_ABORTED) {
            answer.setAbort(
                Txn.Abort.newBuilder().setReason(Txn.AbortReason.ABORT_REASON_CLIENT_ABORT));
          }
          return answer.build();
        });
  }

  private List<Txn.Branch> branches(Known txn) {
    boolean committed = txn.outcome == Outcome.OUTCOME_COMMITTED;
    return txn.enlisted.values().stream()
        .map(
            cluster ->
                Txn.Branch.newBuilder()
                    .setCluster(cluster)
                    .setOutcome(
                        committed
                            ? Txn.BranchOutcome.BRANCH_OUTCOME_COMMITTED
                            : Txn.BranchOutcome.BRANCH_OUTCOME_ABORTED)
                    .setEnlisted(
                        Txn.EnlistedBranch.newBuilder().setReinitRequired(reinitRequired))
                    .build())
        .toList();
  }

  @Override
  public void execute(ExecuteRequest request, StreamObserver<ExecuteResponse> observer) {
    executed.add(request);
    serve(
        "Execute",
        observer,
        () ->
            ExecuteResponse.newBuilder()
                .setKey(request.getKey())
                .setTxnId("x" + ++last)
                .setOutcome(Outcome.OUTCOME_COMMITTED)
                .setRepeatedKey(executed.size() > 1)
                .build());
  }

  @Override
  public void getTxn(GetTxnRequest request, StreamObserver<GetTxnResponse> observer) {
    serve(
        "GetTxn",
        observer,
        () ->
            GetTxnResponse.newBuilder()
                .setTxn(
                    Txn.Transaction.newBuilder()
                        .setTxnId(request.getTxnId())
                        .setState(Txn.TxnState.TXN_STATE_ABORTED)
                        .setLabel("a label"))
                .build());
  }

  @Override
  public void registerProducer(
      RegisterProducerRequest request, StreamObserver<RegisterProducerResponse> observer) {
    serve(
        "Register",
        observer,
        () -> {
          registered.add(request);
          registrations.values().removeIf(request.getCluster()::equals);
          String id = "r" + ++last;
          registrations.put(id, request.getCluster());
          return RegisterProducerResponse.newBuilder()
              .setRegistrationId(id)
              .setIncarnation(incarnation)
              .setProtocol(request.getProtocol())
              .build();
        });
  }

  @Override
  public void enlist(EnlistRequest request, StreamObserver<EnlistResponse> observer) {
    serve(
        "Enlist",
        observer,
        () -> {
          String cluster = registrations.get(request.getRegistrationId());
          if (cluster == null) throw thrown(fenced());
          active(request.getTxnId()).enlisted.put(request.getRegistrationId(), cluster);
          return EnlistResponse.newBuilder().setIncarnation(incarnation).build();
        });
  }
}
