package lockstep

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lockstep/lockstep/clients/go/lockstepv1"
)

// fakeServer is a Coordinator that keeps its transactions in a map and calls no cluster, over a real
// connection. Its calls fail, or are answered otherwise, as the test says beforehand; its log has them in
// order, together with what the test's producers do.
type fakeServer struct {
	lockstepv1.UnimplementedCoordinatorServer
	t       *testing.T
	server  *grpc.Server
	address string

	mu             sync.Mutex
	more           chan struct{} // Closed, and made anew, with each line of the log.
	log            []string
	txns           map[string]*knownTxn
	registered     []*lockstepv1.RegisterProducerRequest
	enlists        []*lockstepv1.EnlistRequest
	executed       []*lockstepv1.ExecuteRequest
	commits        []*lockstepv1.CommitRequest
	reinitRequired bool
	protocol       lockstepv1.ProducerProtocol // What it answers. 0: as it was asked.

	fates         map[string][]fate
	always        map[string]fate
	registrations map[string]string // The valid ones, to clusters.
	incarnation   uint64
	last          int
}

type knownTxn struct {
	records      []*lockstepv1.Record
	offsets      []*lockstepv1.Offset
	clusters     []string
	enlisted     map[string]string // Registration to cluster.
	nextSequence uint64
	outcome      lockstepv1.Outcome
}

// fate is what becomes of one call.
type fate struct {
	carriedOut bool
	err        error
	answer     any
	held       bool // Not answered for as long as its caller waits.
}

func newFakeServer(t *testing.T) *fakeServer {
	f := &fakeServer{
		t:             t,
		txns:          map[string]*knownTxn{},
		fates:         map[string][]fate{},
		always:        map[string]fate{},
		registrations: map[string]string{},
		incarnation:   1,
		more:          make(chan struct{}),
	}
	f.listen("127.0.0.1:0")
	t.Cleanup(func() { f.server.Stop() })
	return f
}

func (f *fakeServer) listen(address string) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		f.t.Error(err)
		return
	}
	f.address = listener.Addr().String()
	f.server = grpc.NewServer()
	lockstepv1.RegisterCoordinatorServer(f.server, f)
	go f.server.Serve(listener)
}

// client retries fast.
func (f *fakeServer) client(opts ...Option) *Client {
	f.t.Helper()
	fast := []Option{WithBackoff(time.Millisecond, 20*time.Millisecond)}
	client, err := Dial(f.address, append(fast, opts...)...)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { client.Close() })
	return client
}

// ---- What the test says beforehand, for the next calls of a method ----

// refuse: the call does nothing and fails.
func (f *fakeServer) refuse(method string, err error) { f.next(method, fate{err: err}) }

// lose: the call is carried out, and its answer lost.
func (f *fakeServer) lose(method string) {
	f.next(method, fate{carriedOut: true, err: status.Error(codes.Unavailable, "lost")})
}

// tell: the call does nothing and is answered so.
func (f *fakeServer) tell(method string, answer any) { f.next(method, fate{answer: answer}) }

// hold: the call is carried out, and not answered for as long as its caller waits.
func (f *fakeServer) hold(method string) { f.next(method, fate{carriedOut: true, held: true}) }

func (f *fakeServer) next(method string, what fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fates[method] = append(f.fates[method], what)
}

// from now on, until forget.
func (f *fakeServer) fromNow(method string, what fate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.always[method] = what
}

func (f *fakeServer) forget(method string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.fates, method)
	delete(f.always, method)
}

// restart is as after a kill -9: open transactions and registrations are gone.
func (f *fakeServer) restart() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.incarnation++
	clear(f.registrations)
	for _, txn := range f.txns {
		if txn.outcome == lockstepv1.Outcome_OUTCOME_UNSPECIFIED {
			txn.outcome = lockstepv1.Outcome_OUTCOME_ABORTED
		}
	}
}

// voidRegistrations is as a second process that registers the same id.
func (f *fakeServer) voidRegistrations() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.registrations)
}

func (f *fakeServer) note(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.write(what)
}

func (f *fakeServer) write(line string) {
	f.log = append(f.log, line)
	close(f.more)
	f.more = make(chan struct{})
}

// await returns once the log has it so many times.
func (f *fakeServer) await(times int, what string) {
	for {
		seen := f.seen()
		if f.count(what) >= times {
			return
		}
		<-seen
	}
}

// until is a context that ends once the log has it so many times.
func (f *fakeServer) until(times int, what string) context.Context {
	ctx, cancel := context.WithCancel(f.t.Context())
	f.t.Cleanup(cancel)
	go func() {
		f.await(times, what)
		cancel()
	}()
	return ctx
}

// seen is closed when the log has one line more.
func (f *fakeServer) seen() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.more
}

func (f *fakeServer) logged() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

func (f *fakeServer) count(what string) int {
	n := 0
	for _, line := range f.logged() {
		if line == what {
			n++
		}
	}
	return n
}

func (f *fakeServer) expectCount(expected int, what string) {
	f.t.Helper()
	if found := f.count(what); found != expected {
		f.t.Errorf("%s: %d times, not %d: %v", what, found, expected, f.logged())
	}
}

func (f *fakeServer) known(txn *Transaction) *knownTxn {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.txns[txn.ID()]
}

func told(code codes.Code, reason, effect string, retry time.Duration) error {
	info := &errdetails.ErrorInfo{
		Domain: "lockstep", Reason: reason, Metadata: map[string]string{"effect": effect}}
	failed, err := status.New(code, "told by the test").WithDetails(info)
	if err == nil && retry > 0 {
		failed, err = failed.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(retry)})
	}
	if err != nil {
		panic(err)
	}
	return failed.Err()
}

var (
	errOutcomeUnknown = told(codes.Unavailable, "OUTCOME_UNKNOWN", "UNKNOWN", time.Millisecond)
	errUnavailable    = told(codes.Unavailable, "UNAVAILABLE", "NONE", time.Millisecond)
	errWrongState     = told(codes.FailedPrecondition, "WRONG_STATE", "NONE", 0)
	errLimitReached   = told(codes.ResourceExhausted, "LIMIT_REACHED", "NONE", time.Millisecond)
	errFenced         = told(codes.FailedPrecondition, "FENCED", "NONE", 0)

	committingAnswer = &lockstepv1.CommitResponse{Outcome: lockstepv1.Outcome_OUTCOME_COMMITTING}
)

func abortedAnswer(reason lockstepv1.AbortReason, cluster string) *lockstepv1.CommitResponse {
	return &lockstepv1.CommitResponse{
		Outcome: lockstepv1.Outcome_OUTCOME_ABORTED,
		Abort:   &lockstepv1.Abort{Reason: reason, Cluster: cluster, Message: "as told"},
	}
}

// ---- The calls ----

func serve[A any](
	ctx context.Context, f *fakeServer, method string, do func() (A, error),
) (A, error) {
	answer, err, held := serveLocked(f, method, do)
	if held {
		<-ctx.Done()
		var none A
		return none, status.FromContextError(ctx.Err()).Err()
	}
	return answer, err
}

func serveLocked[A any](
	f *fakeServer, method string, do func() (A, error),
) (answer A, err error, held bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.write(method)
	what, ok := f.always[method]
	if queue := f.fates[method]; len(queue) > 0 {
		what, ok = queue[0], true
		f.fates[method] = queue[1:]
	}
	if !ok {
		answer, err = do()
		return answer, err, false
	}
	if what.carriedOut {
		answer, err = do()
	}
	if what.answer != nil {
		return what.answer.(A), nil, false
	}
	if what.err != nil {
		err = what.err
	}
	return answer, err, what.held
}

func (f *fakeServer) active(id string) (*knownTxn, error) {
	txn := f.txns[id]
	if txn.outcome != lockstepv1.Outcome_OUTCOME_UNSPECIFIED {
		return nil, errWrongState
	}
	return txn, nil
}

func (f *fakeServer) name(prefix string) string {
	f.last++
	return prefix + string(rune('0'+f.last/10)) + string(rune('0'+f.last%10))
}

func (f *fakeServer) BeginGlobalTxn(
	ctx context.Context, _ *lockstepv1.BeginGlobalTxnRequest,
) (*lockstepv1.BeginGlobalTxnResponse, error) {
	return serve(ctx, f, "Begin", func() (*lockstepv1.BeginGlobalTxnResponse, error) {
		id := f.name("t")
		f.txns[id] = &knownTxn{enlisted: map[string]string{}}
		return &lockstepv1.BeginGlobalTxnResponse{
			TxnId: id, ExpireTime: &timestamppb.Timestamp{Seconds: 1000}}, nil
	})
}

// next reports whether the work is new.
func (txn *knownTxn) next(sequence uint64) (bool, error) {
	if sequence > txn.nextSequence {
		return false, errWrongState
	}
	if sequence < txn.nextSequence {
		return false, nil
	}
	txn.nextSequence++
	return true, nil
}

func (f *fakeServer) Produce(
	ctx context.Context, request *lockstepv1.ProduceRequest,
) (*lockstepv1.ProduceResponse, error) {
	return serve(ctx, f, "Produce", func() (*lockstepv1.ProduceResponse, error) {
		txn, err := f.active(request.GetTxnId())
		if err != nil {
			return nil, err
		}
		isNew, err := txn.next(request.GetSequence())
		if isNew {
			txn.records = append(txn.records, request.GetRecords()...)
			txn.clusters = append(txn.clusters, request.GetCluster())
		}
		return &lockstepv1.ProduceResponse{}, err
	})
}

func (f *fakeServer) SendOffsets(
	ctx context.Context, request *lockstepv1.SendOffsetsRequest,
) (*lockstepv1.SendOffsetsResponse, error) {
	return serve(ctx, f, "SendOffsets", func() (*lockstepv1.SendOffsetsResponse, error) {
		txn, err := f.active(request.GetTxnId())
		if err != nil {
			return nil, err
		}
		isNew, err := txn.next(request.GetSequence())
		if isNew {
			txn.offsets = append(txn.offsets, request.GetOffsets()...)
		}
		return &lockstepv1.SendOffsetsResponse{}, err
	})
}

func (f *fakeServer) Commit(
	ctx context.Context, request *lockstepv1.CommitRequest,
) (*lockstepv1.CommitResponse, error) {
	return serve(ctx, f, "Commit", func() (*lockstepv1.CommitResponse, error) {
		f.commits = append(f.commits, request)
		txn := f.txns[request.GetTxnId()]
		if txn.outcome == lockstepv1.Outcome_OUTCOME_UNSPECIFIED {
			if len(request.GetEnlisted()) != len(txn.enlisted) {
				return nil, status.Error(codes.InvalidArgument, "enlisted")
			}
			txn.outcome = lockstepv1.Outcome_OUTCOME_COMMITTED
		}
		return &lockstepv1.CommitResponse{Outcome: txn.outcome, Branches: f.branches(txn)}, nil
	})
}

func (f *fakeServer) Abort(
	ctx context.Context, request *lockstepv1.AbortRequest,
) (*lockstepv1.AbortResponse, error) {
	return serve(ctx, f, "Abort", func() (*lockstepv1.AbortResponse, error) {
		txn := f.txns[request.GetTxnId()]
		if txn.outcome == lockstepv1.Outcome_OUTCOME_UNSPECIFIED {
			txn.outcome = lockstepv1.Outcome_OUTCOME_ABORTED
		}
		answer := &lockstepv1.AbortResponse{Outcome: txn.outcome, Branches: f.branches(txn)}
		if txn.outcome == lockstepv1.Outcome_OUTCOME_ABORTED {
			answer.Abort = &lockstepv1.Abort{Reason: lockstepv1.AbortReason_ABORT_REASON_CLIENT_ABORT}
		}
		return answer, nil
	})
}

func (f *fakeServer) branches(txn *knownTxn) []*lockstepv1.Branch {
	outcome := lockstepv1.BranchOutcome_BRANCH_OUTCOME_ABORTED
	if txn.outcome == lockstepv1.Outcome_OUTCOME_COMMITTED {
		outcome = lockstepv1.BranchOutcome_BRANCH_OUTCOME_COMMITTED
	}
	var branches []*lockstepv1.Branch
	for _, cluster := range txn.enlisted {
		branches = append(branches, &lockstepv1.Branch{
			Cluster: cluster,
			Outcome: outcome,
			Kind: &lockstepv1.Branch_Enlisted{
				Enlisted: &lockstepv1.EnlistedBranch{ReinitRequired: f.reinitRequired}},
		})
	}
	return branches
}

func (f *fakeServer) Execute(
	ctx context.Context, request *lockstepv1.ExecuteRequest,
) (*lockstepv1.ExecuteResponse, error) {
	return serve(ctx, f, "Execute", func() (*lockstepv1.ExecuteResponse, error) {
		f.executed = append(f.executed, request)
		return &lockstepv1.ExecuteResponse{
			Key:         request.GetKey(),
			TxnId:       f.name("x"),
			Outcome:     lockstepv1.Outcome_OUTCOME_COMMITTED,
			RepeatedKey: len(f.executed) > 1,
		}, nil
	})
}

func (f *fakeServer) GetTxn(
	ctx context.Context, request *lockstepv1.GetTxnRequest,
) (*lockstepv1.GetTxnResponse, error) {
	return serve(ctx, f, "GetTxn", func() (*lockstepv1.GetTxnResponse, error) {
		return &lockstepv1.GetTxnResponse{Txn: &lockstepv1.Transaction{
			TxnId: request.GetTxnId(),
			State: lockstepv1.TxnState_TXN_STATE_ABORTED,
			Label: "a label",
		}}, nil
	})
}

func (f *fakeServer) RegisterProducer(
	ctx context.Context, request *lockstepv1.RegisterProducerRequest,
) (*lockstepv1.RegisterProducerResponse, error) {
	return serve(ctx, f, "Register", func() (*lockstepv1.RegisterProducerResponse, error) {
		f.registered = append(f.registered, request)
		for id, cluster := range f.registrations {
			if cluster == request.GetCluster() {
				delete(f.registrations, id)
			}
		}
		id := f.name("r")
		f.registrations[id] = request.GetCluster()
		protocol := f.protocol
		if protocol == 0 {
			protocol = request.GetProtocol()
		}
		return &lockstepv1.RegisterProducerResponse{
			RegistrationId: id, Incarnation: f.incarnation, Protocol: protocol}, nil
	})
}

func (f *fakeServer) Enlist(
	ctx context.Context, request *lockstepv1.EnlistRequest,
) (*lockstepv1.EnlistResponse, error) {
	return serve(ctx, f, "Enlist", func() (*lockstepv1.EnlistResponse, error) {
		f.enlists = append(f.enlists, request)
		cluster, valid := f.registrations[request.GetRegistrationId()]
		if !valid {
			return nil, errFenced
		}
		txn, err := f.active(request.GetTxnId())
		if err != nil {
			return nil, err
		}
		txn.enlisted[request.GetRegistrationId()] = cluster
		return &lockstepv1.EnlistResponse{Incarnation: f.incarnation}, nil
	})
}
