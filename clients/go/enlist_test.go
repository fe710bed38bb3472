package lockstep

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"google.golang.org/protobuf/proto"

	"github.com/lockstep/lockstep/clients/go/lockstepv1"
)

// The rules that a client of its own producer keeps.

const (
	tv1 = lockstepv1.ProducerProtocol_PRODUCER_PROTOCOL_TV1
	tv2 = lockstepv1.ProducerProtocol_PRODUCER_PROTOCOL_TV2
)

// recordingProducer writes what it is told into the server's log, and fails on demand.
type recordingProducer struct {
	server *fakeServer

	initFails, beginFails, sendFails, offsetsFail, endFails error
	// Records are acknowledged only once it is closed. nil: at once.
	acknowledge chan struct{}

	mu      sync.Mutex
	inited  bool
	epoch   int16
	written map[topicPartition]int64
	pending sync.WaitGroup
	aborted chan struct{} // Closed by AbortBufferedRecords.
}

func (r *recordingProducer) told(what string, failure error) error {
	r.server.note(what)
	return failure
}

func (r *recordingProducer) ProducerID(context.Context) (int64, int16, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.inited {
		if err := r.told("init", r.initFails); err != nil {
			return -1, -1, err
		}
		r.inited = true
	}
	return 7, r.epoch, nil
}

func (r *recordingProducer) BeginTransaction() error { return r.told("begin", r.beginFails) }

func (r *recordingProducer) Produce(
	_ context.Context, record *kgo.Record, promise func(*kgo.Record, error),
) {
	r.told("send", nil)
	r.pending.Add(1)
	finish := func(err error) {
		r.mu.Lock()
		if err == nil {
			where := topicPartition{record.Topic, record.Partition}
			record.Offset = r.written[where]
			r.written[where]++
		}
		r.mu.Unlock()
		promise(record, err)
		r.pending.Done()
	}
	if r.acknowledge == nil {
		finish(r.sendFails)
		return
	}
	go func() {
		select {
		case <-r.acknowledge:
			finish(r.sendFails)
		case <-r.aborted:
			finish(kgo.ErrAborting)
		}
	}()
}

func (r *recordingProducer) Flush(ctx context.Context) error {
	r.told("flush", nil)
	return r.drain(ctx)
}

func (r *recordingProducer) AbortBufferedRecords(ctx context.Context) error {
	r.told("drop", nil)
	close(r.aborted)
	return r.drain(ctx)
}

func (r *recordingProducer) drain(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		r.pending.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *recordingProducer) EndTransaction(_ context.Context, how kgo.TransactionEndTry) error {
	what := "abortTransaction"
	if how == kgo.TryCommit {
		what = "commitTransaction"
	}
	r.mu.Lock()
	r.epoch++
	r.mu.Unlock()
	return r.told(what, r.endFails)
}

func (r *recordingProducer) Request(_ context.Context, request kmsg.Request) (kmsg.Response, error) {
	name := kmsg.NameForKey(request.Key())
	err := r.told(name, r.offsetsFail)
	return request.ResponseKind(), err
}

func (r *recordingProducer) RequestCachedMetadata(
	context.Context, *kmsg.MetadataRequest, time.Duration,
) (*kmsg.MetadataResponse, error) {
	response := kmsg.NewPtrMetadataResponse()
	response.ClusterID = kmsg.StringPtr("east-id")
	return response, nil
}

func (r *recordingProducer) Close() { r.told("discard", nil) }

// rules is a test of one.
type rules struct {
	t       *testing.T
	server  *fakeServer
	client  *Client
	east    *EnlistedProducer
	made    int
	prepare func(*recordingProducer)
}

func newRules(t *testing.T, opts ...Option) *rules {
	server := newFakeServer(t)
	r := &rules{t: t, server: server, client: server.client(opts...), prepare: func(*recordingProducer) {}}
	r.east = r.producer("east")
	return r
}

func (r *rules) producer(cluster string) *EnlistedProducer {
	r.t.Helper()
	enlisted, err := NewEnlistedProducer(r.client, cluster, "id-"+cluster)
	if err != nil {
		r.t.Fatal(err)
	}
	enlisted.make = func(lockstepv1.ProducerProtocol) (producer, error) {
		r.made++
		made := &recordingProducer{
			server: r.server, written: map[topicPartition]int64{}, aborted: make(chan struct{})}
		r.prepare(made)
		return made, nil
	}
	return enlisted
}

func orders() *kgo.Record { return &kgo.Record{Topic: "orders", Partition: 1, Value: []byte("v")} }

func (r *rules) enlist(txn *Transaction) *Enlistment {
	r.t.Helper()
	enlistment, err := txn.Enlist(r.t.Context(), r.east)
	if err != nil {
		r.t.Fatal(err)
	}
	return enlistment
}

func (r *rules) write(enlistment *Enlistment) {
	r.t.Helper()
	if err := enlistment.Produce(r.t.Context(), orders(), nil); err != nil {
		r.t.Fatal(err)
	}
}

// begun is a transaction with one record.
func (r *rules) begun() *Transaction {
	r.t.Helper()
	txn := begin(r.t, r.client)
	r.write(r.enlist(txn))
	return txn
}

// run is one transaction with one record.
func (r *rules) run() Result {
	r.t.Helper()
	result, err := r.begun().Commit(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return result
}

func (r *rules) commit() {
	r.t.Helper()
	expectOutcome(r.t, Committed, r.run(), nil)
}

var first = []string{"Begin", "Register", "init", "Enlist", "begin", "send", "flush", "Commit"}

// expectAfterCommit is of what was logged after first, which must have been there.
func (r *rules) expectAfterCommit(expected ...string) {
	r.t.Helper()
	if log := r.server.logged(); !slices.Equal(append(slices.Clone(first), expected...), log) {
		r.t.Errorf("%v", log)
	}
}

func (r *rules) expectNoEnd() {
	r.t.Helper()
	r.server.expectCount(0, "commitTransaction")
	r.server.expectCount(0, "abortTransaction")
}

func (r *rules) expectMadeAnew() {
	r.t.Helper()
	before := r.made
	r.server.forget("Commit")
	r.server.reinitRequired = false
	r.prepare = func(*recordingProducer) {}
	r.commit()
	if r.made != before+1 {
		r.t.Errorf("%d producers, not %d: %v", r.made, before+1, r.server.logged())
	}
	r.server.expectCount(r.made, "Register")
}

// ---- The order of things ----

func TestRegistersInitialisesEnlistsWritesAndEndsLast(t *testing.T) {
	r := newRules(t)
	r.commit()
	r.expectAfterCommit("commitTransaction")
	if request := r.server.registered[0]; request.GetTransactionalId() != "id-east" ||
		request.GetProtocol() != tv2 {
		t.Error(request)
	}
}

func TestTheNextTransactionGoesOnWithTheSameProducer(t *testing.T) {
	r := newRules(t)
	r.commit()
	r.commit()
	if r.made != 1 {
		t.Error(r.made)
	}
	r.server.expectCount(1, "Register")
	r.server.expectCount(2, "commitTransaction")
	for epoch, request := range r.server.enlists {
		if request.GetProducerId() != 7 || request.GetProducerEpoch() != int32(epoch) {
			t.Error(request)
		}
	}
}

func TestTheServerHearsWhatWasWritten(t *testing.T) {
	r := newRules(t)
	txn := begin(t, r.client)
	out := r.enlist(txn)
	for range 3 {
		r.write(out)
	}
	offsets := GroupOffsets{
		Group: Group{ID: "g", Generation: 3, MemberID: "m"}, Offsets: []Offset{{Topic: "in", Offset: 7}}}
	if err := errors.Join(
		out.Produce(t.Context(), &kgo.Record{Topic: "other"}, nil),
		out.SendOffsets(t.Context(), offsets),
		out.SendOffsets(t.Context(), GroupOffsets{Group: Group{ID: "nothing"}}),
	); err != nil {
		t.Fatal(err)
	}
	result, err := txn.Commit(t.Context())
	expectOutcome(t, Committed, result, err)
	work := r.server.commits[0].GetEnlisted()[0]
	found := map[string]int64{}
	for _, partition := range work.GetPartitions() {
		found[partition.GetTopic()] = partition.GetOffset()
	}
	if len(found) != 2 || found["orders"] != 2 || found["other"] != 0 || work.GetReadOnly() ||
		!slices.Equal(work.GetGroupIds(), []string{"g"}) {
		t.Error(work)
	}
	r.server.expectCount(0, "AddOffsetsToTxn") // TV2's TxnOffsetCommit does it.
	r.server.expectCount(1, "TxnOffsetCommit")
}

func TestUnderTV1OffsetsAreAddedFirst(t *testing.T) {
	r := newRules(t)
	r.server.protocol = tv1
	for range 2 {
		txn := begin(t, r.client)
		if err := r.enlist(txn).SendOffsets(t.Context(), GroupOffsets{
			Group: Group{ID: "g"}, Offsets: []Offset{{Topic: "in"}}}); err != nil {
			t.Fatal(err)
		}
		result, err := txn.Commit(t.Context())
		expectOutcome(t, Committed, result, err)
	}
	r.server.expectCount(2, "AddOffsetsToTxn")
	r.server.expectCount(2, "TxnOffsetCommit")
	r.server.expectCount(1, "Register")
}

func TestUnderTV2OffsetsAloneLeaveTheProducerBehind(t *testing.T) {
	r := newRules(t)
	txn := begin(t, r.client)
	if err := r.enlist(txn).SendOffsets(t.Context(), GroupOffsets{
		Group: Group{ID: "g"}, Offsets: []Offset{{Topic: "in"}}}); err != nil {
		t.Fatal(err)
	}
	result, err := txn.Commit(t.Context())
	expectOutcome(t, Committed, result, err)
	if r.server.commits[0].GetEnlisted()[0].GetReadOnly() {
		t.Error("offsets are something")
	}
	r.expectNoEnd()
	r.expectMadeAnew()
}

func TestNothingWrittenIsReadOnly(t *testing.T) {
	r := newRules(t)
	txn := begin(t, r.client)
	r.enlist(txn)
	result, err := txn.Commit(t.Context())
	expectOutcome(t, Committed, result, err)
	if !r.server.commits[0].GetEnlisted()[0].GetReadOnly() {
		t.Error(r.server.commits[0])
	}
	r.commit()
	if r.made != 1 {
		t.Error(r.made)
	}
}

func TestCommitWaitsForWhatIsNotAcknowledged(t *testing.T) {
	r := newRules(t)
	acknowledge := make(chan struct{})
	r.prepare = func(p *recordingProducer) { p.acknowledge = acknowledge }
	txn := r.begun()
	done := make(chan struct{})
	go func() {
		defer close(done)
		result, err := txn.Commit(t.Context())
		if err != nil || result.Outcome != Committed {
			t.Error(result, err)
		}
	}()
	r.server.await(1, "flush")
	r.server.expectCount(0, "Commit")
	close(acknowledge)
	<-done
	if partitions := r.server.commits[0].GetEnlisted()[0].GetPartitions(); len(partitions) != 1 {
		t.Error(partitions)
	}
}

// ---- Never an end of its own before a definite answer ----

func TestEndsOnlyAfterADefiniteAnswer(t *testing.T) {
	r := newRules(t)
	r.server.refuse("Commit", errOutcomeUnknown)
	r.server.lose("Commit")
	r.server.tell("Commit", committingAnswer)
	r.server.tell("Commit", committingAnswer)
	r.commit()
	r.expectAfterCommit("Commit", "Commit", "Commit", "Commit", "commitTransaction")
	for _, request := range r.server.commits {
		if !proto.Equal(request, r.server.commits[0]) {
			t.Error(request)
		}
	}
}

func TestWithoutAnAnswerTheProducerNeverEnds(t *testing.T) {
	r := newRules(t)
	r.server.fromNow("Commit", fate{err: errOutcomeUnknown})
	txn := r.begun()
	_, err := txn.Commit(r.server.until(2, "Commit"))
	if failure(t, err).Effect != EffectUnknown {
		t.Error(err)
	}
	txn.Close()
	r.expectNoEnd()
	r.server.expectCount(0, "Abort")
	r.server.expectCount(1, "discard")
	r.server.forget("Commit")
	result, err := txn.Commit(t.Context())
	expectOutcome(t, Committed, result, err)
	r.expectNoEnd()
	r.expectMadeAnew()
}

func TestDecidedAndUnderWayIsNoAnswerForTheProducer(t *testing.T) {
	r := newRules(t)
	r.server.fromNow("Commit", fate{answer: committingAnswer})
	txn := r.begun()
	result, err := txn.Commit(r.server.until(2, "Commit"))
	expectOutcome(t, Committing, result, err)
	txn.Close()
	r.expectNoEnd()
	r.server.expectCount(1, "discard")
	r.expectMadeAnew()
}

func TestACancelledCommitDoesNotEndTheProducer(t *testing.T) {
	r := newRules(t)
	txn := r.begun()
	r.server.hold("Commit")
	if _, err := txn.Commit(r.server.until(1, "Commit")); failure(t, err).Effect != EffectUnknown {
		t.Error(err)
	}
	r.expectNoEnd()
	r.server.expectCount(1, "discard")
	r.expectMadeAnew()
}

func TestAnAbortWithoutAnAnswerDoesNotEndTheProducerEither(t *testing.T) {
	r := newRules(t, impatient)
	r.server.fromNow("Abort", fate{err: errOutcomeUnknown})
	r.begun().Close()
	r.expectNoEnd()
	r.server.expectCount(1, "discard")
	r.server.forget("Abort")
	r.expectMadeAnew()
}

func TestClosingTheProducerWithinATransactionDoesNotEndItsOwn(t *testing.T) {
	r := newRules(t)
	txn := begin(t, r.client)
	out := r.enlist(txn)
	r.write(out)
	r.east.Close()
	r.server.expectCount(1, "discard")
	if err := out.Produce(t.Context(), orders(), nil); failure(t, err).Reason != "WRONG_STATE" {
		t.Error(err)
	}
	result, err := txn.Commit(t.Context())
	expectOutcome(t, Aborted, result, err)
	r.expectNoEnd()
	r.server.expectCount(0, "Commit")
	if _, err := begin(t, r.client).Enlist(t.Context(), r.east); failure(t, err).Reason != "WRONG_STATE" {
		t.Error(err)
	}
}

// ---- Outcomes ----

func TestAbortedIsSaidByTheProducerToo(t *testing.T) {
	r := newRules(t)
	r.server.tell("Commit", abortedAnswer(lockstepv1.AbortReason_ABORT_REASON_VOTE_MISMATCH, "east"))
	if result := r.run(); result.Abort.Reason != "VOTE_MISMATCH" {
		t.Error(result)
	}
	r.expectAfterCommit("abortTransaction")
	r.commit()
	if r.made != 1 {
		t.Error(r.made)
	}
}

func TestLeavingTheScopeAborts(t *testing.T) {
	r := newRules(t)
	r.begun().Close()
	log := r.server.logged()
	if !slices.Equal(log[len(log)-2:], []string{"Abort", "abortTransaction"}) {
		t.Error(log)
	}
}

func TestRecordsUnderWayWhenItAbortsAreDroppedAndTheProducerLeftBehind(t *testing.T) {
	r := newRules(t)
	r.prepare = func(p *recordingProducer) { p.acknowledge = make(chan struct{}) }
	txn := r.begun()
	txn.Close()
	log := r.server.logged()
	if !slices.Equal(log[len(log)-4:], []string{"flush", "drop", "Abort", "discard"}) {
		t.Error(log)
	}
	r.expectMadeAnew()
}

func TestCommittedStaysCommittedWhateverTheProducerSays(t *testing.T) {
	r := newRules(t)
	r.prepare = func(p *recordingProducer) { p.endFails = kerr.InvalidTxnState }
	r.commit()
	r.expectAfterCommit("commitTransaction", "discard")
	r.expectMadeAnew()
}

func TestAbortedStaysAbortedWhateverTheProducerSays(t *testing.T) {
	r := newRules(t)
	r.prepare = func(p *recordingProducer) { p.endFails = kerr.ProducerFenced }
	r.server.tell("Commit", abortedAnswer(lockstepv1.AbortReason_ABORT_REASON_TXN_TIMEOUT, ""))
	expectOutcome(t, Aborted, r.run(), nil)
	r.expectMadeAnew()
}

func TestWhatTheServerWantsReinitialisedIsMadeAnew(t *testing.T) {
	r := newRules(t)
	r.server.reinitRequired = true
	r.commit()
	r.expectAfterCommit("discard")
	r.expectMadeAnew()
}

func TestHeuristicIsToldAndTheProducerMadeAnew(t *testing.T) {
	r := newRules(t)
	r.server.tell("Commit",
		&lockstepv1.CommitResponse{Outcome: lockstepv1.Outcome_OUTCOME_HEURISTIC})
	result := r.run()
	expectOutcome(t, Heuristic, result, nil)
	if result.Err() == nil {
		t.Error("HEURISTIC is no success")
	}
	r.expectAfterCommit("discard")
	r.expectMadeAnew()
}

// ---- What could not be written ----

func (r *rules) expectNotCommitted(result Result, err error) {
	r.t.Helper()
	expectOutcome(r.t, Aborted, result, err)
	if result.Abort.Cluster != "east" || !strings.Contains(result.Abort.Message, "the culprit") {
		r.t.Error(result)
	}
	r.server.expectCount(0, "Commit")
	r.server.expectCount(1, "Abort")
	r.expectNoEnd()
	r.expectMadeAnew()
}

func TestARecordThatFailsAborts(t *testing.T) {
	r := newRules(t)
	r.prepare = func(p *recordingProducer) { p.sendFails = errors.New("the culprit") }
	txn := begin(t, r.client)
	out := r.enlist(txn)
	var heard error
	if err := out.Produce(t.Context(), orders(), func(_ *kgo.Record, err error) { heard = err }); err != nil {
		t.Fatal(err)
	}
	if heard == nil {
		t.Error("the promise heard nothing")
	}
	result, err := txn.Commit(t.Context())
	r.expectNotCommitted(result, err)
}

func TestOffsetsThatFailAbort(t *testing.T) {
	r := newRules(t)
	r.prepare = func(p *recordingProducer) { p.offsetsFail = errors.New("the culprit") }
	txn := begin(t, r.client)
	if err := r.enlist(txn).SendOffsets(t.Context(), GroupOffsets{
		Group: Group{ID: "g"}, Offsets: []Offset{{Topic: "in"}}}); err == nil {
		t.Error("the offsets were not sent")
	}
	result, err := txn.Commit(t.Context())
	r.expectNotCommitted(result, err)
}

func TestOffsetsOfAnotherClusterAbort(t *testing.T) {
	r := newRules(t)
	txn := begin(t, r.client)
	if err := r.enlist(txn).SendOffsets(t.Context(), GroupOffsets{
		Group: Group{ID: "g"}, Offsets: []Offset{{Topic: "in"}}, KafkaClusterID: "the culprit"}); err == nil {
		t.Error("the offsets were sent")
	}
	result, err := txn.Commit(t.Context())
	r.expectNotCommitted(result, err)
	r.server.expectCount(0, "TxnOffsetCommit")
}

func TestWhatIsNotAcknowledgedInTimeAborts(t *testing.T) {
	r := newRules(t)
	r.prepare = func(p *recordingProducer) { p.acknowledge = make(chan struct{}) }
	result, err := r.begun().Commit(shortly(t))
	expectOutcome(t, Aborted, result, err)
	if result.Abort.Cluster != "east" {
		t.Error(result)
	}
	r.server.expectCount(0, "Commit")
	r.expectNoEnd()
	r.expectMadeAnew()
}

// ---- Enlist ----

func TestFencedRegistersAnewAndTheTransactionGoesOn(t *testing.T) {
	r := newRules(t)
	r.commit()
	r.server.voidRegistrations()
	r.commit()
	if r.made != 2 {
		t.Error(r.made)
	}
	r.server.expectCount(2, "Register")
	r.server.expectCount(1, "discard")
}

func TestFencedTwiceIsTold(t *testing.T) {
	r := newRules(t)
	r.server.refuse("Enlist", errFenced)
	r.server.refuse("Enlist", errFenced)
	txn := begin(t, r.client)
	if _, err := txn.Enlist(t.Context(), r.east); failure(t, err).Reason != "FENCED" {
		t.Error(err)
	}
	r.write(r.enlist(txn)) // The transaction goes on.
	result, err := txn.Commit(t.Context())
	expectOutcome(t, Committed, result, err)
	r.server.expectCount(3, "Register")
}

func TestAServerThatRestartedGetsANewRegistration(t *testing.T) {
	r := newRules(t)
	r.commit()
	r.server.restart()
	r.commit()
	if r.made != 2 {
		t.Error(r.made)
	}
	r.server.expectCount(2, "Register")
}

func TestAnotherIncarnationInTheAnswerIsARestart(t *testing.T) {
	r := newRules(t)
	r.commit()
	r.server.tell("Enlist", &lockstepv1.EnlistResponse{Incarnation: 99})
	txn := begin(t, r.client)
	if _, err := txn.Enlist(t.Context(), r.east); failure(t, err).Effect != EffectUnknown {
		t.Error(err)
	}
	if _, err := txn.Commit(t.Context()); failure(t, err).Reason != "WRONG_STATE" {
		t.Error(err)
	}
	txn.Close()
	r.server.expectCount(1, "discard")
	r.server.expectCount(1, "Abort")
	r.expectMadeAnew()
}

func TestTheTransactionOfARestartedServerIsGone(t *testing.T) {
	r := newRules(t)
	txn := begin(t, r.client)
	r.server.restart()
	if _, err := txn.Enlist(t.Context(), r.east); failure(t, err).Reason != "WRONG_STATE" {
		t.Error(err)
	}
	txn.Close()
	r.commit()
}

func TestEnlistIsTriedAgainWhileTheEndBeforeIsNotDurable(t *testing.T) {
	r := newRules(t)
	r.server.refuse("Enlist", errUnavailable)
	r.server.lose("Enlist")
	r.commit()
	r.server.expectCount(3, "Enlist")
	if r.made != 1 {
		t.Error(r.made)
	}
}

func TestAnEnlistOfUnknownEffectLeavesOnlyTheAbort(t *testing.T) {
	r := newRules(t)
	if err := r.east.WarmUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.server.fromNow("Enlist", fate{carriedOut: true, err: errOutcomeUnknown})
	txn := begin(t, r.client)
	if _, err := txn.Enlist(r.server.until(2, "Enlist"), r.east); failure(t, err).Effect != EffectUnknown {
		t.Error(err)
	}
	if _, err := txn.Commit(t.Context()); failure(t, err).Reason != "WRONG_STATE" {
		t.Error(err)
	}
	txn.Close()
	r.server.expectCount(1, "Abort")
	r.server.expectCount(0, "begin")
	r.server.expectCount(0, "Commit")
}

func TestAProducerThatCannotBeInitialisedIsClosed(t *testing.T) {
	r := newRules(t)
	r.prepare = func(p *recordingProducer) { p.initFails = errors.New("no broker") }
	txn := begin(t, r.client)
	if _, err := txn.Enlist(t.Context(), r.east); err == nil || !strings.Contains(err.Error(), "no broker") {
		t.Error(err)
	}
	r.server.expectCount(1, "discard")
	r.prepare = func(*recordingProducer) {}
	r.write(r.enlist(txn))
	result, err := txn.Commit(t.Context())
	expectOutcome(t, Committed, result, err)
	r.server.expectCount(2, "Register")
}

func TestAProducerThatCannotBeginLeavesOnlyTheAbort(t *testing.T) {
	r := newRules(t)
	r.prepare = func(p *recordingProducer) { p.beginFails = errors.New("fatal") }
	txn := begin(t, r.client)
	if _, err := txn.Enlist(t.Context(), r.east); err == nil {
		t.Error("it did not begin")
	}
	if _, err := txn.Commit(t.Context()); failure(t, err).Reason != "WRONG_STATE" {
		t.Error(err)
	}
	txn.Close()
	r.server.expectCount(1, "Abort")
	r.expectMadeAnew()
}

// ---- Use ----

func TestSeveralProducersAndTheServersOwnInOneTransaction(t *testing.T) {
	r := newRules(t)
	west := r.producer("west")
	defer west.Close()
	txn := r.begun()
	out, err := txn.Enlist(t.Context(), west)
	if err != nil {
		t.Fatal(err)
	}
	r.write(out)
	if err := txn.Produce(t.Context(), "north", record("v")); err != nil {
		t.Fatal(err)
	}
	result, err := txn.Commit(t.Context())
	expectOutcome(t, Committed, result, err)
	if n := len(r.server.commits[0].GetEnlisted()); n != 2 {
		t.Error(n)
	}
	r.server.expectCount(2, "commitTransaction")
}

func TestOneTransactionAtATime(t *testing.T) {
	r := newRules(t)
	first, second := begin(t, r.client), begin(t, r.client)
	r.enlist(first)
	if _, err := second.Enlist(t.Context(), r.east); failure(t, err).Reason != "WRONG_STATE" {
		t.Error(err)
	}
	result, err := first.Commit(t.Context())
	expectOutcome(t, Committed, result, err)
	r.enlist(second)
}

func TestWorkOfManyGoroutines(t *testing.T) {
	r := newRules(t)
	txn := begin(t, r.client)
	out := r.enlist(txn)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				r.write(out)
			}
		})
	}
	all.Wait()
	result, err := txn.Commit(t.Context())
	expectOutcome(t, Committed, result, err)
	if offset := r.server.commits[0].GetEnlisted()[0].GetPartitions()[0].GetOffset(); offset != 399 {
		t.Error(offset)
	}
}

func TestNoWorkAfterTheEnd(t *testing.T) {
	r := newRules(t)
	txn := begin(t, r.client)
	out := r.enlist(txn)
	if _, err := txn.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := out.Produce(t.Context(), orders(), nil); failure(t, err).Reason != "WRONG_STATE" {
		t.Error(err)
	}
	if err := out.SendOffsets(t.Context(), GroupOffsets{
		Group: Group{ID: "g"}, Offsets: []Offset{{Topic: "in"}}}); failure(t, err).Reason != "WRONG_STATE" {
		t.Error(err)
	}
}

func TestDecidedDoesNotGoWithEnlistedProducers(t *testing.T) {
	r := newRules(t)
	txn := r.begun()
	if _, err := txn.CommitDecided(t.Context()); failure(t, err).Reason != "WRONG_STATE" {
		t.Error(err)
	}
	result, err := txn.Commit(t.Context())
	expectOutcome(t, Committed, result, err)
}

func TestAnotherClientsProducerIsRefused(t *testing.T) {
	r := newRules(t)
	txn := begin(t, newRules(t).client)
	if _, err := txn.Enlist(t.Context(), r.east); failure(t, err).Reason != "WRONG_STATE" {
		t.Error(err)
	}
}

func TestAProducerDoesNotConsume(t *testing.T) {
	r := newRules(t)
	for _, opts := range [][]kgo.Opt{
		{kgo.ConsumerGroup("g"), kgo.ConsumeTopics("in")}, {kgo.ConsumeTopics("in")},
	} {
		if _, err := NewEnlistedProducer(r.client, "east", "id", opts...); err == nil ||
			!strings.Contains(err.Error(), "GroupTransactSession") {
			t.Error(err)
		}
	}
	if _, err := NewEnlistedProducer(r.client, "east", ""); err == nil {
		t.Error("a transactional.id is needed")
	}
}

func TestTheProtocolFollowsFromTheVersions(t *testing.T) {
	r := newRules(t)
	for _, version := range []struct {
		limits   *kversion.Versions
		protocol lockstepv1.ProducerProtocol
	}{
		{kversion.V3_9_0(), tv1}, {kversion.V4_0_0(), tv2}, {kversion.Stable(), tv2},
	} {
		enlisted, err := NewEnlistedProducer(r.client, "east", "id", kgo.MaxVersions(version.limits))
		if err != nil || enlisted.protocol != version.protocol {
			t.Error(version, enlisted, err)
		}
	}
	for protocol, expected := range map[lockstepv1.ProducerProtocol][2]int16{tv1: {4, 4}, tv2: {5, 5}} {
		versions := versionsFor(protocol, kversion.Stable())
		end, _ := versions.LookupMaxKeyVersion(kmsg.EndTxn.Int16())
		offsets, _ := versions.LookupMaxKeyVersion(kmsg.TxnOffsetCommit.Int16())
		if end != expected[0] || offsets != expected[1] {
			t.Error(protocol, end, offsets)
		}
		if bestProtocol(versions) != protocol {
			t.Error(protocol)
		}
	}
}

// ---- Consumers ----

func TestAConsumerWhoseGroupMayMoveOnIsRefused(t *testing.T) {
	for _, opts := range [][]kgo.Opt{
		{kgo.ConsumeTopics("in")},
		{kgo.ConsumeTopics("in"), kgo.ConsumerGroup("g"), kgo.DisableAutoCommit()},
		{kgo.ConsumeTopics("in"), kgo.ConsumerGroup("g"), kgo.BlockRebalanceOnPoll()},
	} {
		consumer, err := kgo.NewClient(append(opts, kgo.SeedBrokers("127.0.0.1:1"))...)
		if err != nil {
			t.Fatal(err)
		}
		defer consumer.CloseAllowingRebalance()
		if _, err := OffsetsOf(t.Context(), consumer, []*kgo.Record{orders()}); err == nil {
			t.Error("not safe")
		}
	}
}
