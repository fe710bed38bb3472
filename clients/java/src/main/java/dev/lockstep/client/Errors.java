package dev.lockstep.client;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import dev.lockstep.client.LockstepException.Code;
import dev.lockstep.client.LockstepException.Effect;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;

/** From gRPC's errors to ours. */
final class Errors {
  private Errors() {}

  static LockstepException of(StatusRuntimeException error) {
    Status status = error.getStatus();
    String message = status.getDescription() == null ? "" : status.getDescription();
    if (Thread.currentThread().isInterrupted() && status.getCode() == Status.Code.CANCELLED) {
      return new LockstepException(
          Code.INTERRUPTED, Effect.UNKNOWN, "", "interrupted: " + message, null, error);
    }
    String reason = "";
    Duration retryAfter = null;
    Effect effect = mayHaveHappened(status.getCode()) ? Effect.UNKNOWN : Effect.NONE;
    com.google.rpc.Status details = StatusProto.fromThrowable(error);
    if (details != null) {
      for (Any detail : details.getDetailsList()) {
        try {
          if (detail.is(ErrorInfo.class)) {
            ErrorInfo info = detail.unpack(ErrorInfo.class);
            if (!info.getDomain().equals("lockstep")) continue;
            reason = info.getReason();
            effect = effectOf(info);
          } else if (detail.is(RetryInfo.class)) {
            com.google.protobuf.Duration delay = detail.unpack(RetryInfo.class).getRetryDelay();
            retryAfter = Duration.ofSeconds(delay.getSeconds(), delay.getNanos());
          }
        } catch (InvalidProtocolBufferException e) {
          // A detail that cannot be read tells nothing; the status does.
          continue;
        }
      }
    }
    String text = (reason.isEmpty() ? status.getCode().name() : reason) + ": " + message;
    return new LockstepException(codeOf(status.getCode()), effect, reason, text, retryAfter, error);
  }

  private static Effect effectOf(ErrorInfo info) {
    String told = info.getMetadataMap().get("effect");
    boolean none = told != null ? told.equals("NONE") : !info.getReason().equals("OUTCOME_UNKNOWN");
    return none ? Effect.NONE : Effect.UNKNOWN;
  }

  /** gRPC's own errors. These can come after the server has carried the call out. */
  private static boolean mayHaveHappened(Status.Code code) {
    return switch (code) {
      case UNAVAILABLE, CANCELLED, DEADLINE_EXCEEDED, UNKNOWN, INTERNAL, DATA_LOSS -> true;
      default -> false;
    };
  }

  private static Code codeOf(Status.Code code) {
    return switch (code) {
      case INVALID_ARGUMENT, OUT_OF_RANGE -> Code.INVALID_ARGUMENT;
      case NOT_FOUND -> Code.NOT_FOUND;
      case FAILED_PRECONDITION, ABORTED, ALREADY_EXISTS -> Code.WRONG_STATE;
      case RESOURCE_EXHAUSTED -> Code.LIMIT_REACHED;
      case UNAVAILABLE, CANCELLED -> Code.UNAVAILABLE; // By the server's end: we cancel nothing.
      case DEADLINE_EXCEEDED -> Code.DEADLINE_EXCEEDED;
      case PERMISSION_DENIED, UNAUTHENTICATED -> Code.PERMISSION_DENIED;
      case UNIMPLEMENTED -> Code.UNSUPPORTED;
      case DATA_LOSS -> Code.CORRUPT;
      default -> Code.INTERNAL;
    };
  }
}
