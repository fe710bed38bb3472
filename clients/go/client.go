package lockstep

import (
	"context"
	"crypto/rand"
	"log/slog"
	"math"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lockstep/lockstep/clients/go/lockstepv1"
)

// Client is a connection to one lockstepd. Safe for concurrent use. Make one for the process and keep
// it: it connects at the first call, connects again whenever it must, and all transactions share it.
type Client struct {
	connection *connection
	owned      bool
}

type options struct {
	callTimeout    time.Duration
	attemptTimeout time.Duration
	firstBackoff   time.Duration
	maxBackoff     time.Duration
	logger         *slog.Logger
	dial           []grpc.DialOption
}

// Option is how a client makes its calls.
type Option func(*options)

// WithCallTimeout is for calls whose context has no deadline, with their retries: 30 seconds.
func WithCallTimeout(timeout time.Duration) Option {
	return func(o *options) { o.callTimeout = timeout }
}

// WithAttemptTimeout is for one attempt of a call; what is left of the call's time is for the next one:
// 10 seconds.
func WithAttemptTimeout(timeout time.Duration) Option {
	return func(o *options) { o.attemptTimeout = timeout }
}

// WithBackoff is between attempts that failed: first, then twice as long each time, up to longest. The
// server's word on when to come again takes precedence where it is longer. 50 milliseconds, 1 second.
func WithBackoff(first, longest time.Duration) Option {
	return func(o *options) { o.firstBackoff, o.maxBackoff = first, longest }
}

// WithLogger is for what nobody is told otherwise: slog.Default().
func WithLogger(logger *slog.Logger) Option {
	return func(o *options) { o.logger = logger }
}

// WithGRPC adds to how [Dial] connects: credentials for TLS, for example.
func WithGRPC(dial ...grpc.DialOption) Option {
	return func(o *options) { o.dial = append(o.dial, dial...) }
}

// Dial makes a client of HOST:PORT of lockstepd. It does not wait for a connection. In plain text, unless
// [WithGRPC] says otherwise.
func Dial(server string, opts ...Option) (*Client, error) {
	o := applied(opts)
	dial := append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)),
		// A server whose machine is gone says nothing: notice it while a call waits.
		grpc.WithKeepaliveParams(
			keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
		// The calls' own retries know which call may be repeated.
		grpc.WithDisableRetry(),
	}, o.dial...)
	conn, err := grpc.NewClient(server, dial...)
	if err != nil {
		return nil, err
	}
	client := New(conn, opts...)
	client.owned = true
	return client, nil
}

// New makes a client over a connection of the caller's, who closes it. Turn gRPC's own retries off.
func New(conn *grpc.ClientConn, opts ...Option) *Client {
	return &Client{connection: &connection{
		grpc:    conn,
		stub:    lockstepv1.NewCoordinatorClient(conn),
		options: applied(opts),
	}}
}

func applied(opts []Option) options {
	o := options{
		callTimeout:    30 * time.Second,
		attemptTimeout: 10 * time.Second,
		firstBackoff:   50 * time.Millisecond,
		maxBackoff:     time.Second,
	}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// Close ends the calls that are under way. Close transactions and enlisted producers first.
func (c *Client) Close() error {
	if !c.owned {
		return nil
	}
	return c.connection.grpc.Close()
}

// TxnOption is how a transaction begins.
type TxnOption func(*txnOptions)

type txnOptions struct {
	timeout time.Duration
	label   string
}

// WithTimeout is how long a transaction may take until it is decided; then it aborts. A minute; the
// server has a limit.
func WithTimeout(timeout time.Duration) TxnOption {
	return func(o *txnOptions) { o.timeout = timeout }
}

// WithLabel is for people: shown in listings and logs; at most 256 bytes.
func WithLabel(label string) TxnOption {
	return func(o *txnOptions) { o.label = label }
}

func txnApplied(opts []TxnOption) txnOptions {
	o := txnOptions{timeout: time.Minute}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// Begin begins a transaction; nothing is written to disk or to any cluster. After an error there may be
// one that nobody knows: it aborts at its timeout. LIMIT_REACHED: too many are open.
//
// Close it, or use [Client.InTxn], which does.
func (c *Client) Begin(ctx context.Context, opts ...TxnOption) (*Transaction, error) {
	o := txnApplied(opts)
	begun, err := call(ctx, c.connection, c.connection.stub.BeginGlobalTxn,
		&lockstepv1.BeginGlobalTxnRequest{Timeout: durationpb.New(o.timeout), Label: o.label},
		behaviour[*lockstepv1.BeginGlobalTxnResponse]{})
	if err != nil {
		return nil, err
	}
	return &Transaction{
		connection: c.connection,
		id:         begun.GetTxnId(),
		expiresAt:  begun.GetExpireTime().AsTime(),
	}, nil
}

// InTxn begins a transaction, has work add to it, and commits it. It aborts if work fails, whose error is
// then returned as it is, or panics. Work may also end the transaction itself.
//
// The result is that of [Transaction.Commit]: look at it, or at its Err.
func (c *Client) InTxn(
	ctx context.Context, work func(*Transaction) error, opts ...TxnOption,
) (Result, error) {
	txn, err := c.Begin(ctx, opts...)
	if err != nil {
		return Result{}, err
	}
	defer txn.Close()
	if err := work(txn); err != nil {
		return Result{}, err
	}
	if txn.ended != nil {
		return *txn.ended, nil
	}
	return txn.Commit(ctx)
}

// Execute is a whole transaction in one call: it commits all of work, in its order, or nothing. Repeated
// inside under one key until an outcome is known, so that it takes effect once. For what fits into one
// message. key nil: a random one.
//
// After an error with [EffectUnknown] it may have committed, be running, or not have begun: execute it
// again under the same key, which the answer has also then. So after ABORTED too, should the work still
// be wanted. KEY_FORGOTTEN means that the key is older than the outcomes that the server keeps, so that
// nobody knows whether it once committed.
func (c *Client) Execute(
	ctx context.Context, work []Work, key *ExecuteKey, opts ...TxnOption,
) (Executed, error) {
	if key == nil {
		made := NewExecuteKey(rand.Text())
		key = &made
	}
	o := txnApplied(opts)
	answer, err := call(ctx, c.connection, c.connection.stub.Execute,
		&lockstepv1.ExecuteRequest{
			Key:     key.Name,
			KeyTime: timestamppb.New(key.MadeAt),
			Timeout: durationpb.New(o.timeout),
			Label:   o.label,
			Work:    worksOf(work),
		},
		behaviour[*lockstepv1.ExecuteResponse]{askAgain: incomplete[*lockstepv1.ExecuteResponse]})
	if err != nil {
		return Executed{Key: *key}, err
	}
	result, err := resultOf(answer.GetTxnId(), answer)
	return Executed{Key: *key, Result: result, RepeatedKey: answer.GetRepeatedKey()}, err
}

// GetTxn is what is known of a transaction now. Changes nothing. One that the server does not know, and
// that it would know had it been decided, is ABORTED (presumed abort). TXN_NOT_FOUND: another server's
// id, or its outcome is no longer kept.
func (c *Client) GetTxn(ctx context.Context, txnID string) (TxnInfo, error) {
	answer, err := call(ctx, c.connection, c.connection.stub.GetTxn,
		&lockstepv1.GetTxnRequest{TxnId: txnID}, behaviour[*lockstepv1.GetTxnResponse]{})
	if err != nil {
		return TxnInfo{}, err
	}
	return infoOf(answer.GetTxn())
}

// Commit is [Transaction.Commit] for one that was begun elsewhere, or whose commit failed with an
// unknown effect. Commits an open one: its work must be complete. An open one with enlisted producers is
// refused.
func (c *Client) Commit(ctx context.Context, txnID string) (Result, error) {
	return c.connection.commit(ctx, &lockstepv1.CommitRequest{
		TxnId: txnID, Wait: lockstepv1.CommitWait_COMMIT_WAIT_COMPLETE})
}

// Abort is [Transaction.Abort] by id.
func (c *Client) Abort(ctx context.Context, txnID string) (Result, error) {
	return c.connection.abort(ctx, txnID)
}

// incomplete is of what the server answers shortly before an attempt's deadline, which may be long before
// the call's.
func incomplete[A ended](answer A) bool {
	return answer.GetOutcome() == lockstepv1.Outcome_OUTCOME_COMMITTING
}

func (c *connection) commit(ctx context.Context, request *lockstepv1.CommitRequest) (Result, error) {
	how := behaviour[*lockstepv1.CommitResponse]{insist: true}
	if request.GetWait() != lockstepv1.CommitWait_COMMIT_WAIT_DECIDED {
		how.askAgain = incomplete[*lockstepv1.CommitResponse]
	}
	answer, err := call(ctx, c, c.stub.Commit, request, how)
	if err != nil {
		return Result{}, err
	}
	return resultOf(request.GetTxnId(), answer)
}

func (c *connection) abort(ctx context.Context, txnID string) (Result, error) {
	answer, err := call(ctx, c, c.stub.Abort, &lockstepv1.AbortRequest{TxnId: txnID},
		behaviour[*lockstepv1.AbortResponse]{insist: true})
	if err != nil {
		return Result{}, err
	}
	return resultOf(txnID, answer)
}
