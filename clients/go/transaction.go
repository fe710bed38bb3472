package lockstep

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockstep/lockstep/clients/go/lockstepv1"
)

// closing is what an abort may take at most that nobody waits for.
const closing = 5 * time.Second

// Transaction is one transaction over several clusters, of [Client.Begin]. It aborts unless it is
// committed: defer its Close.
//
//	txn, err := client.Begin(ctx)
//	...
//	defer txn.Close()
//	if err := txn.Produce(ctx, "east", order); err != nil { ... }
//	if err := txn.Produce(ctx, "west", order); err != nil { ... }
//	result, err := txn.Commit(ctx)
//
// Not safe for concurrent use. A server keeps open transactions in memory only: work after its restart is
// refused (WRONG_STATE); what was decided before is not lost.
type Transaction struct {
	connection   *connection
	id           string
	expiresAt    time.Time
	state        state
	nextSequence uint64
	enlistments  []*Enlistment             // None once they know how it ended, or that nobody does.
	request      *lockstepv1.CommitRequest // The same in each commit.
	ended        *Result                   // What was answered last.
}

type state int

const (
	stateOpen state = iota
	// Of a call it is not known whether it added its work: aborting is all that is left.
	stateDoubtful
	stateCommitting
	stateAborting
)

// ID names the transaction for [Client.Commit], [Client.Abort] and [Client.GetTxn], from any process.
// Store it before the commit to be able to ask for the outcome after a crash of your own.
func (t *Transaction) ID() string { return t.id }

// ExpiresAt is when it aborts unless it is decided, by the server's clock.
func (t *Transaction) ExpiresAt() time.Time { return t.expiresAt }

// ---- Work ----

// Produce adds records for one cluster (a name from the server's configuration): all of them or none. The
// server buffers them, nothing is durable, and no cluster hears of them until the commit: what is wrong
// with a topic or a record is commit's answer.
//
// After an error with [EffectNone] nothing was added, and the transaction goes on; LIMIT_REACHED is for
// the caller to wait out, or to make transactions smaller. With [EffectUnknown] nobody knows whether it
// was added: the transaction can only be aborted then.
func (t *Transaction) Produce(ctx context.Context, cluster string, records ...Record) error {
	return t.add(func() error {
		sequence := t.nextSequence
		_, err := call(ctx, t.connection, t.connection.stub.Produce,
			&lockstepv1.ProduceRequest{
				TxnId:    t.id,
				Cluster:  cluster,
				Sequence: &sequence,
				Records:  recordsOf(records),
			}, behaviour[*lockstepv1.ProduceResponse]{})
		if err == nil {
			t.nextSequence++
		}
		return err
	})
}

// SendOffsets adds consumer offsets that commit with the transaction; cluster is where their group lives.
// As [Transaction.Produce]. A group that fences the member is commit's answer: ABORTED, GROUP_FENCED.
func (t *Transaction) SendOffsets(ctx context.Context, cluster string, offsets GroupOffsets) error {
	return t.add(func() error {
		sequence := t.nextSequence
		_, err := call(ctx, t.connection, t.connection.stub.SendOffsets,
			&lockstepv1.SendOffsetsRequest{
				TxnId:          t.id,
				Cluster:        cluster,
				Sequence:       &sequence,
				KafkaClusterId: offsets.KafkaClusterID,
				Group:          groupOf(offsets.Group),
				Standalone:     offsets.Group.Standalone,
				Offsets:        offsetsOf(offsets.Offsets),
			}, behaviour[*lockstepv1.SendOffsetsResponse]{})
		if err == nil {
			t.nextSequence++
		}
		return err
	})
}

// Enlist makes what producer writes from now on a part of this transaction, on the producer's cluster; at
// most one producer a cluster. The first time, and whenever the producer has to be made anew, this
// registers and initialises it, which takes as long as Kafka takes.
//
// After an error the transaction goes on without the producer, or, where it cannot, takes nothing more
// and can only be aborted.
func (t *Transaction) Enlist(ctx context.Context, producer *EnlistedProducer) (*Enlistment, error) {
	var enlistment *Enlistment
	err := t.add(func() error {
		made, err := producer.enlist(ctx, t.connection, t.id)
		if err != nil {
			return err
		}
		enlistment = made
		t.enlistments = append(t.enlistments, made)
		// The producer's own begin, which no broker hears of.
		if err := made.producer.BeginTransaction(); err != nil {
			t.state = stateDoubtful
			made.fail(err)
			return fmt.Errorf("lockstep: %v: begin: %w", producer, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return enlistment, nil
}

func (t *Transaction) add(work func() error) error {
	switch t.state {
	case stateOpen:
	case stateDoubtful:
		return errDoubtful()
	default:
		return wrongState("commit or abort was called: no more work")
	}
	err := work()
	if isUnknown(err) {
		t.state = stateDoubtful
	}
	return err
}

func errDoubtful() *Error {
	return wrongState("it is not known whether an earlier call added its work: abort, begin anew")
}

// ---- The end ----

// Commit commits everywhere or nowhere, and answers with the outcome, which may be ABORTED: look at it,
// or at its Err. If it is COMMITTED, it is on every cluster. A decided transaction whose clusters take
// longer than there is time is COMMITTING: it will be.
//
// After an error with [EffectUnknown] it may be committed, aborted or open: call Commit again, here or
// through the client by its id, also after a restart of either side. [Transaction.Close] does not abort
// it from here on.
//
// With enlisted producers this first flushes them. If a record or an offset was not written, or not in
// time, the transaction is aborted, and the answer says so. After the server's answer they end their own
// transactions accordingly; one that cannot is made anew when it is enlisted the next time, and changes
// nothing about the outcome. If there is no definite answer (an error, or COMMITTING) they do not end
// theirs, ever, and are made anew, too.
func (t *Transaction) Commit(ctx context.Context) (Result, error) {
	return t.commit(ctx, lockstepv1.CommitWait_COMMIT_WAIT_COMPLETE)
}

// CommitDecided is Commit that waits only until COMMIT is durable: it will complete, whatever crashes.
// Not with enlisted producers.
func (t *Transaction) CommitDecided(ctx context.Context) (Result, error) {
	if len(t.enlistments) > 0 {
		return Result{}, wrongState("a transaction of one's own producer waits until it is complete")
	}
	return t.commit(ctx, lockstepv1.CommitWait_COMMIT_WAIT_DECIDED)
}

func (t *Transaction) commit(ctx context.Context, wait lockstepv1.CommitWait) (Result, error) {
	switch t.state {
	case stateDoubtful:
		return Result{}, errDoubtful()
	case stateAborting:
		return Result{}, wrongState("abort was called")
	}
	if t.request == nil {
		if failed, why := t.flush(ctx); failed != nil {
			return t.abortUnwritten(ctx, failed, why)
		}
		request := &lockstepv1.CommitRequest{TxnId: t.id, Wait: wait}
		for _, enlistment := range t.enlistments {
			request.Enlisted = append(request.Enlisted, enlistment.work())
		}
		t.request = request
	}
	t.state = stateCommitting
	return t.settle(ctx, func() (Result, error) { return t.connection.commit(ctx, t.request) })
}

// flush returns when all work of the enlisted producers is acknowledged, or with the one whose work is
// not, and why.
func (t *Transaction) flush(ctx context.Context) (*Enlistment, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.connection.options.callTimeout)
		defer cancel()
	}
	for _, enlistment := range t.enlistments {
		enlistment.close()
	}
	for _, enlistment := range t.enlistments {
		if err := enlistment.flush(ctx); err != nil {
			return enlistment, err
		}
	}
	return nil, nil
}

// abortUnwritten is before COMMIT was ever asked for. The caller's time may be up: that is one reason.
func (t *Transaction) abortUnwritten(
	ctx context.Context, failed *Enlistment, why error,
) (Result, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	result, err := t.Abort(ctx)
	if err == nil && result.Outcome == Aborted {
		// The server knows of an abort by its client only; the client knows better.
		result.Abort.Cluster = failed.owner.cluster
		result.Abort.Message = "the enlisted producer could not write: " + why.Error()
		t.ended = &result
	}
	return result, err
}

// Abort aborts, unless COMMIT is decided already: then the outcome says so.
//
// After an error with [EffectUnknown]: ask again. Enlisted producers then abort their own; one whose
// records are not all acknowledged within a second is made anew.
func (t *Transaction) Abort(ctx context.Context) (Result, error) {
	t.state = stateAborting
	for _, enlistment := range t.enlistments {
		enlistment.close()
	}
	for _, enlistment := range t.enlistments {
		enlistment.quieten()
	}
	return t.settle(ctx, func() (Result, error) { return t.connection.abort(ctx, t.id) })
}

// settle is the one place where producers hear of the end.
func (t *Transaction) settle(ctx context.Context, ask func() (Result, error)) (Result, error) {
	result, err := ask()
	var all sync.WaitGroup
	for _, enlistment := range t.enlistments {
		all.Go(func() { enlistment.end(ctx, result) })
	}
	all.Wait()
	t.enlistments = nil
	if err != nil {
		var failed *Error
		if errors.As(err, &failed) {
			err = failed.with(failed.Effect, "transaction "+t.id+": ")
		}
		return Result{}, err
	}
	if result.Outcome == Heuristic {
		t.connection.log().Error("a transaction is HEURISTIC", "txn", t.id, "result", result.String())
	}
	t.ended = &result
	return result, nil
}

// Close aborts, unless commit or abort was called. If that does not get through within five seconds, the
// transaction's timeout does.
func (t *Transaction) Close() {
	if t.state == stateCommitting || t.state == stateAborting {
		return
	}
	timeout := min(closing, t.connection.options.callTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if _, err := t.Abort(ctx); err != nil {
		t.connection.log().Warn("a transaction is left to its timeout: it could not be aborted",
			"txn", t.id, "error", err)
	}
}
