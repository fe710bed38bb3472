package lockstep

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/lockstep/lockstep/clients/go/lockstepv1"
)

// tooLate is less than is enough for one more attempt.
const tooLate = 5 * time.Millisecond

// connection is what all calls of one client share.
type connection struct {
	grpc    *grpc.ClientConn
	stub    lockstepv1.CoordinatorClient
	options options
}

func (c *connection) log() *slog.Logger {
	if c.options.logger != nil {
		return c.options.logger
	}
	return slog.Default()
}

// method is a unary call of the stub.
type method[Q, A any] func(context.Context, Q, ...grpc.CallOption) (A, error)

// behaviour is how a call is repeated.
type behaviour[A any] struct {
	// It is not given up while it can still succeed: also after LIMIT_REACHED.
	insist bool
	// Of an answer that is OK, and that a later one may better: the last of these is returned once
	// there is no more time. nil: none.
	askAgain func(A) bool
}

// call makes a call with its retries: it repeats what may have been lost, so it is only for methods that
// may be repeated. The error is an *Error with what is known of all attempts.
func call[Q, A any](
	ctx context.Context, c *connection, do method[Q, A], request Q, how behaviour[A],
) (A, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.options.callTimeout)
		defer cancel()
	}
	retry := retry{ctx: ctx, options: &c.options, insist: how.insist, backoff: c.options.firstBackoff}
	var soFar A
	answered := false
	for {
		answer, err := attempt(ctx, c, do, request)
		if err == nil {
			if how.askAgain == nil || !how.askAgain(answer) {
				return answer, nil
			}
			soFar, answered = answer, true
			if !retry.afterAnswer() {
				return soFar, nil
			}
			continue
		}
		if known := retry.afterError(errorOf(ctx, err)); known != nil {
			if answered {
				return soFar, nil
			}
			var none A
			return none, known
		}
		// Else a channel that lost its server tries to connect only after up to two minutes.
		c.grpc.ResetConnectBackoff()
	}
}

func attempt[Q, A any](ctx context.Context, c *connection, do method[Q, A], request Q) (A, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.attemptTimeout)
	defer cancel()
	return do(ctx, request)
}

// retry says when one call is tried again, and what is known when it is not.
type retry struct {
	ctx       context.Context // With a deadline.
	options   *options
	insist    bool // Also try again when the server is full.
	backoff   time.Duration
	uncertain bool // Some attempt may have reached the server without our knowing.
}

// afterError returns nil when it is time for the next attempt, or what is known of all of them.
func (r *retry) afterError(failed *Error) *Error {
	if failed.unknown() {
		r.uncertain = true
	}
	if !r.canHelp(failed) {
		// Such a refusal settles earlier attempts too: had one of them taken effect, the repetition
		// would have been OK, or its effect ended with its transaction.
		switch failed.Code {
		case codes.InvalidArgument, codes.OutOfRange, codes.FailedPrecondition, codes.Aborted,
			codes.AlreadyExists:
			r.uncertain = false
		}
		return r.known(failed)
	}
	if r.later(failed.RetryAfter) {
		return nil
	}
	if r.ctx.Err() != nil {
		failed = errorOf(r.ctx, failed.cause).with(failed.Effect, "")
	}
	return r.known(failed)
}

// afterAnswer is after an answer that may get better. False: there is no time to ask again.
func (r *retry) afterAnswer() bool {
	r.backoff = r.options.firstBackoff
	return r.later(0)
}

func (r *retry) canHelp(failed *Error) bool {
	if r.ctx.Err() != nil {
		return false
	}
	if failed.unknown() || failed.Code == codes.Unavailable {
		return true
	}
	// Full is the caller's to handle, unless an earlier attempt is to be cleared up.
	return failed.Retryable && (r.insist || r.uncertain || failed.Code != codes.ResourceExhausted)
}

func (r *retry) known(failed *Error) *Error {
	if r.uncertain && !failed.unknown() {
		return failed.with(EffectUnknown, "")
	}
	return failed
}

func (r *retry) later(atLeast time.Duration) bool {
	// Between a half and the whole: clients that lost one server come back spread out.
	delay := max(r.backoff/2+rand.N(r.backoff/2+1), atLeast)
	r.backoff = min(2*r.backoff, r.options.maxBackoff)
	if deadline, _ := r.ctx.Deadline(); time.Until(deadline) < delay+tooLate {
		return false
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.ctx.Done():
		return false
	}
}
