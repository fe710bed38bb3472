package lockstep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Effect is what is known about the effect of a call that failed.
type Effect string

const (
	// EffectNone: nothing happened, and nothing will happen later.
	EffectNone Effect = "NONE"
	// EffectUnknown: it may have happened, or may still happen: ask again.
	EffectUnknown Effect = "UNKNOWN"
)

// Error is a call that failed; for errors.As. An outcome is never one: a transaction that aborted is an
// answer. Act on Effect, then on Reason or Code; the wording is for people.
type Error struct {
	Effect Effect
	Code   codes.Code
	// The server's own word, as in lockstep/v1/error.proto without its prefix ("UNKNOWN_CLUSTER").
	// Empty where the server did not say one.
	Reason  string
	Message string
	// The same call may succeed, after RetryAfter.
	Retryable  bool
	RetryAfter time.Duration

	cause error
}

func (e *Error) Error() string { return "lockstep: " + e.Message }

// Unwrap is gRPC's error, or that of the context which ended the call.
func (e *Error) Unwrap() error { return e.cause }

func (e *Error) unknown() bool { return e.Effect == EffectUnknown }

func (e *Error) with(effect Effect, prefix string) *Error {
	changed := *e
	changed.Effect = effect
	changed.Message = prefix + e.Message
	return &changed
}

// NotCommittedError is a transaction that ended ABORTED or HEURISTIC, of [Result.Err].
type NotCommittedError struct {
	Result Result
}

func (e *NotCommittedError) Error() string {
	return fmt.Sprintf("lockstep: transaction %s: %v", e.Result.TxnID, e.Result)
}

// wrongState is said by this side, of a call that was not made.
func wrongState(message string) *Error {
	return &Error{
		Effect:  EffectNone,
		Code:    codes.FailedPrecondition,
		Reason:  "WRONG_STATE",
		Message: message,
	}
}

// isUnknown reports whether err says that a call may have taken effect.
func isUnknown(err error) bool {
	var failed *Error
	return errors.As(err, &failed) && failed.unknown()
}

func isFenced(err error) bool {
	var failed *Error
	return errors.As(err, &failed) && failed.Reason == "FENCED"
}

// errorOf is gRPC's error in our words. ctx is the caller's: what it has ended says so.
func errorOf(ctx context.Context, err error) *Error {
	told := status.Convert(err)
	if ended := ctx.Err(); ended != nil && mayHaveHappened(told.Code()) {
		return &Error{
			Effect:  EffectUnknown,
			Code:    status.FromContextError(ended).Code(),
			Message: ended.Error(),
			cause:   ended,
		}
	}
	failed := &Error{Effect: EffectNone, Code: told.Code(), cause: err}
	if mayHaveHappened(told.Code()) {
		failed.Effect = EffectUnknown
	}
	for _, detail := range told.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			if detail.GetDomain() == "lockstep" {
				failed.Reason = detail.GetReason()
				failed.Effect = effectOf(detail)
			}
		case *errdetails.RetryInfo:
			failed.Retryable = true
			failed.RetryAfter = detail.GetRetryDelay().AsDuration()
		}
	}
	name := failed.Reason
	if name == "" {
		name = told.Code().String()
	}
	failed.Message = name + ": " + told.Message()
	return failed
}

func effectOf(info *errdetails.ErrorInfo) Effect {
	told, ok := info.GetMetadata()["effect"]
	if ok && told == "NONE" || !ok && info.GetReason() != "OUTCOME_UNKNOWN" {
		return EffectNone
	}
	return EffectUnknown
}

// mayHaveHappened is of gRPC's own errors: these can come after the server has carried the call out.
func mayHaveHappened(code codes.Code) bool {
	switch code {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded, codes.Unknown, codes.Internal,
		codes.DataLoss:
		return true
	default:
		return false
	}
}
