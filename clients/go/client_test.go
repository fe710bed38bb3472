package lockstep

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/lockstep/lockstep/clients/go/lockstepv1"
)

// For calls that are to fail.
const short = 100 * time.Millisecond

// For calls that are to fail, with others before them that are not, on a busy machine.
var impatient = WithCallTimeout(2 * time.Second)

func shortly(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), short)
	t.Cleanup(cancel)
	return ctx
}

func record(value string) Record {
	return Record{Topic: "orders", Key: []byte("k"), Value: []byte(value)}
}

func begin(t *testing.T, client *Client) *Transaction {
	t.Helper()
	txn, err := client.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return txn
}

func expectOutcome(t *testing.T, expected Outcome, result Result, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if result.Outcome != expected {
		t.Fatalf("%v, not %v", result, expected)
	}
}

// failure is what errors.As finds.
func failure(t *testing.T, err error) *Error {
	t.Helper()
	var failed *Error
	if !errors.As(err, &failed) {
		t.Fatalf("no *Error: %v", err)
	}
	return failed
}

func TestWorkIsNumberedAndCommitted(t *testing.T) {
	server := newFakeServer(t)
	client := server.client()
	txn := begin(t, client)
	if !txn.ExpiresAt().Equal(time.Unix(1000, 0)) {
		t.Error(txn.ExpiresAt())
	}
	offsets := GroupOffsets{
		Group:   Group{ID: "g", Standalone: true},
		Offsets: []Offset{{Topic: "in", Partition: 3, Offset: 14}},
	}
	if err := errors.Join(
		txn.Produce(t.Context(), "east", record("1"), record("2")),
		txn.SendOffsets(t.Context(), "west", offsets),
		txn.Produce(t.Context(), "west", record("3")),
	); err != nil {
		t.Fatal(err)
	}
	result, err := txn.Commit(t.Context())
	expectOutcome(t, Committed, result, err)
	if result.Err() != nil {
		t.Error(result.Err())
	}
	txn.Close()
	known := server.known(txn)
	if strings.Join(known.clusters, " ") != "east west" || len(known.records) != 3 ||
		known.offsets[0].GetOffset() != 14 || known.nextSequence != 3 {
		t.Errorf("%+v", known)
	}
	server.expectCount(0, "Abort")
}

func TestNullAndEmptyStayDifferent(t *testing.T) {
	server := newFakeServer(t)
	txn := begin(t, server.client())
	defer txn.Close()
	if err := txn.Produce(t.Context(), "east",
		Record{Topic: "t", Key: []byte{}, Partition: Partition(0), Headers: []Header{{Key: "h"}}},
		Record{Topic: "t", Value: []byte{}}); err != nil {
		t.Fatal(err)
	}
	first, second := server.known(txn).records[0], server.known(txn).records[1]
	if first.Key == nil || first.Value != nil || first.Partition == nil || first.Headers[0].Value != nil {
		t.Error(first)
	}
	if second.Key != nil || second.Value == nil || second.Partition != nil || second.Timestamp != nil {
		t.Error(second)
	}
}

func TestLostAnswersAreAskedForAgain(t *testing.T) {
	server := newFakeServer(t)
	server.lose("Begin")
	txn := begin(t, server.client())
	server.lose("Produce")
	if err := txn.Produce(t.Context(), "east", record("1")); err != nil {
		t.Fatal(err)
	}
	if records := server.known(txn).records; len(records) != 1 {
		t.Errorf("%d records", len(records))
	}
	server.lose("Commit")
	server.refuse("Commit", errOutcomeUnknown)
	result, err := txn.Commit(t.Context())
	expectOutcome(t, Committed, result, err)
	server.expectCount(3, "Commit")
}

func TestCommittingIsAskedAgain(t *testing.T) {
	server := newFakeServer(t)
	txn := begin(t, server.client())
	server.tell("Commit", committingAnswer)
	result, err := txn.Commit(t.Context())
	expectOutcome(t, Committed, result, err)
}

func TestCommittingIsTheAnswerWhenThereIsNoMoreTime(t *testing.T) {
	server := newFakeServer(t)
	txn := begin(t, server.client())
	server.fromNow("Commit", fate{answer: committingAnswer})
	result, err := txn.Commit(server.until(2, "Commit"))
	expectOutcome(t, Committing, result, err)
	if !result.Decided() || result.Err() != nil {
		t.Error(result)
	}
	txn.Close()
	server.expectCount(0, "Abort")
}

func TestDecidedIsNotAskedAgain(t *testing.T) {
	server := newFakeServer(t)
	txn := begin(t, server.client())
	server.fromNow("Commit", fate{carriedOut: true, answer: committingAnswer})
	result, err := txn.CommitDecided(t.Context())
	expectOutcome(t, Committing, result, err)
	if wait := server.commits[0].GetWait(); wait != lockstepv1.CommitWait_COMMIT_WAIT_DECIDED {
		t.Error(wait)
	}
	server.expectCount(1, "Commit")
}

func TestAbortedIsAnAnswer(t *testing.T) {
	server := newFakeServer(t)
	txn := begin(t, server.client())
	server.tell("Commit", abortedAnswer(lockstepv1.AbortReason_ABORT_REASON_UNKNOWN_TOPIC, "east"))
	result, err := txn.Commit(t.Context())
	expectOutcome(t, Aborted, result, err)
	if text := result.String(); text != "ABORTED: UNKNOWN_TOPIC on east: as told" {
		t.Error(text)
	}
	var notCommitted *NotCommittedError
	if !errors.As(result.Err(), &notCommitted) || notCommitted.Result.Abort != result.Abort {
		t.Error(result.Err())
	}
}

func TestAbortsUnlessCommitted(t *testing.T) {
	server := newFakeServer(t)
	txn := begin(t, server.client())
	txn.Close()
	if outcome := server.known(txn).outcome; outcome != lockstepv1.Outcome_OUTCOME_ABORTED {
		t.Error(outcome)
	}
	if err := txn.Produce(t.Context(), "east", record("late")); failure(t, err).Reason != "WRONG_STATE" {
		t.Error(err)
	}
	if _, err := txn.Commit(t.Context()); failure(t, err).Reason != "WRONG_STATE" {
		t.Error(err)
	}
	server.expectCount(0, "Commit")
}

func TestInTxnCommits(t *testing.T) {
	server := newFakeServer(t)
	result, err := server.client().InTxn(t.Context(), func(txn *Transaction) error {
		return txn.Produce(t.Context(), "east", record("1"))
	})
	expectOutcome(t, Committed, result, err)
	server.expectCount(1, "Commit")
	server.expectCount(0, "Abort")
}

func TestInTxnAbortsWhenTheWorkFails(t *testing.T) {
	server := newFakeServer(t)
	failed := errors.New("the work failed")
	_, err := server.client().InTxn(t.Context(), func(*Transaction) error { return failed })
	if err != failed {
		t.Error(err)
	}
	server.expectCount(0, "Commit")
	server.expectCount(1, "Abort")
}

func TestInTxnAbortsWhenTheWorkPanics(t *testing.T) {
	server := newFakeServer(t)
	client := server.client()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is gone")
			}
		}()
		client.InTxn(t.Context(), func(*Transaction) error { panic("of the test") })
	}()
	server.expectCount(0, "Commit")
	server.expectCount(1, "Abort")
}

func TestInTxnTakesTheEndOfTheWork(t *testing.T) {
	server := newFakeServer(t)
	result, err := server.client().InTxn(t.Context(), func(txn *Transaction) error {
		_, err := txn.Abort(t.Context())
		return err
	})
	expectOutcome(t, Aborted, result, err)
	server.expectCount(0, "Commit")
	server.expectCount(1, "Abort")
}

func TestUnknownOutcomeIsNotAbortedAndMayBeAskedForAgain(t *testing.T) {
	server := newFakeServer(t)
	client := server.client()
	txn := begin(t, client)
	server.fromNow("Commit", fate{err: errOutcomeUnknown})
	_, err := txn.Commit(server.until(2, "Commit"))
	if failed := failure(t, err); failed.Effect != EffectUnknown || !strings.Contains(err.Error(), txn.ID()) {
		t.Error(err)
	}
	txn.Close()
	server.expectCount(0, "Abort")
	server.forget("Commit")
	result, err := txn.Commit(t.Context())
	expectOutcome(t, Committed, result, err)
	result, err = client.Commit(t.Context(), txn.ID())
	expectOutcome(t, Committed, result, err)
}

func TestWorkOfUnknownEffectLeavesOnlyTheAbort(t *testing.T) {
	server := newFakeServer(t)
	txn := begin(t, server.client())
	server.fromNow("Produce", fate{err: status.Error(codes.Unavailable, "")})
	if err := txn.Produce(server.until(2, "Produce"), "east", record("1")); failure(t, err).Effect != EffectUnknown {
		t.Error(err)
	}
	server.forget("Produce")
	if err := txn.Produce(t.Context(), "east", record("2")); failure(t, err).Reason != "WRONG_STATE" {
		t.Error(err)
	}
	if _, err := txn.Commit(t.Context()); failure(t, err).Reason != "WRONG_STATE" {
		t.Error(err)
	}
	txn.Close()
	server.expectCount(0, "Commit")
	server.expectCount(1, "Abort")
}

func TestARefusalSettlesWhatWasLostBefore(t *testing.T) {
	server := newFakeServer(t)
	txn := begin(t, server.client())
	server.refuse("Produce", status.Error(codes.Unavailable, ""))
	server.refuse("Produce", errWrongState)
	if err := txn.Produce(t.Context(), "east", record("1")); failure(t, err).Effect != EffectNone {
		t.Error(err)
	}
	result, err := txn.Commit(t.Context())
	expectOutcome(t, Committed, result, err)
}

func TestFullIsTheCallersToHandleUntilTheCommit(t *testing.T) {
	server := newFakeServer(t)
	txn := begin(t, server.client())
	server.refuse("Produce", errLimitReached)
	failed := failure(t, txn.Produce(t.Context(), "east", record("1")))
	if failed.Code != codes.ResourceExhausted || failed.Reason != "LIMIT_REACHED" ||
		failed.Effect != EffectNone || !failed.Retryable || failed.RetryAfter != time.Millisecond {
		t.Errorf("%+v", failed)
	}
	if err := txn.Produce(t.Context(), "east", record("1")); err != nil {
		t.Fatal(err)
	}
	server.refuse("Commit", errLimitReached)
	result, err := txn.Commit(t.Context())
	expectOutcome(t, Committed, result, err)
}

func TestAServerThatComesBackIsFound(t *testing.T) {
	server := newFakeServer(t)
	slow := backoff.DefaultConfig
	slow.BaseDelay = time.Minute
	client := server.client(WithGRPC(grpc.WithConnectParams(grpc.ConnectParams{Backoff: slow})))
	begin(t, client).Close()
	address := server.address
	server.server.Stop()
	back := make(chan struct{})
	go func() {
		defer close(back)
		// Somebody who hangs up, so that the client has failed before there is a server.
		nobody, err := net.Listen("tcp", address)
		if err != nil {
			t.Error(err)
			return
		}
		if conn, err := nobody.Accept(); err == nil {
			conn.Close()
		}
		nobody.Close()
		server.listen(address)
	}()
	before := time.Now()
	begin(t, client).Close()
	<-back
	if took := time.Since(before); took > 5*time.Second {
		t.Error(took)
	}
}

func TestExecuteIsRepeatedUnderItsKey(t *testing.T) {
	server := newFakeServer(t)
	server.lose("Execute")
	done, err := server.client().Execute(t.Context(), []Work{
		{Cluster: "east", Records: []Record{record("1")}},
		{Cluster: "west", Records: []Record{record("1")}},
	}, nil)
	expectOutcome(t, Committed, done.Result, err)
	first := server.executed[0]
	if !done.RepeatedKey || len(server.executed) != 2 || !proto.Equal(first, server.executed[1]) ||
		first.GetKey() != done.Key.Name || len(first.GetWork()) != 2 {
		t.Errorf("%+v, %v", done, server.executed)
	}
}

func TestExecuteKeepsTheCallersKey(t *testing.T) {
	server := newFakeServer(t)
	key := NewExecuteKey("order-42")
	if _, err := server.client().Execute(t.Context(), []Work{{
		Cluster: "east",
		Offsets: &GroupOffsets{Group: Group{ID: "g", Standalone: true}, Offsets: []Offset{{Topic: "in"}}},
	}}, &key, WithLabel("a label")); err != nil {
		t.Fatal(err)
	}
	request := server.executed[0]
	if request.GetKey() != "order-42" || !request.GetKeyTime().AsTime().Equal(key.MadeAt) ||
		len(request.GetWork()) != 1 || request.GetWork()[0].GetOffsets() == nil ||
		request.GetLabel() != "a label" || request.GetTimeout().AsDuration() != time.Minute {
		t.Error(request)
	}
}

func TestGetTxnTells(t *testing.T) {
	server := newFakeServer(t)
	info, err := server.client().GetTxn(t.Context(), "t7")
	if err != nil || info.ID != "t7" || info.State != StateAborted || info.Label != "a label" {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestACancelledContextEndsACall(t *testing.T) {
	server := newFakeServer(t)
	txn := begin(t, server.client())
	server.hold("Commit")
	_, err := txn.Commit(server.until(1, "Commit"))
	if failed := failure(t, err); failed.Code != codes.Canceled || failed.Effect != EffectUnknown ||
		!errors.Is(err, context.Canceled) {
		t.Errorf("%+v", failed)
	}
	result, err := txn.Commit(t.Context())
	expectOutcome(t, Committed, result, err)
}

func TestACallTimeoutHoldsWithoutADeadline(t *testing.T) {
	server := newFakeServer(t)
	patient := server.client()
	begun := begin(t, patient)
	txn := &Transaction{connection: server.client(WithCallTimeout(short)).connection, id: begun.ID()}
	server.fromNow("Produce", fate{err: errUnavailable})
	failure(t, txn.Produce(t.Context(), "east", record("1")))
}

func TestOneAttemptIsNotTheWholeCall(t *testing.T) {
	server := newFakeServer(t)
	txn := begin(t, server.client(WithAttemptTimeout(short)))
	server.hold("Commit")
	result, err := txn.Commit(t.Context())
	expectOutcome(t, Committed, result, err)
	if n := server.count("Commit"); n < 2 {
		t.Error(n)
	}
}

func TestAWordOfANewerServerIsNoOutcome(t *testing.T) {
	server := newFakeServer(t)
	txn := begin(t, server.client())
	server.tell("Commit", &lockstepv1.CommitResponse{Outcome: 99})
	_, err := txn.Commit(t.Context())
	if failure(t, err).Effect != EffectUnknown {
		t.Error(err)
	}
	server.tell("Commit", abortedAnswer(99, ""))
	result, err := txn.Commit(t.Context())
	expectOutcome(t, Aborted, result, err)
	if result.Abort.Reason != "REASON_99" {
		t.Error(result)
	}
}

func TestAnUnknownReasonIsPassedOn(t *testing.T) {
	server := newFakeServer(t)
	server.refuse("Begin", told(codes.Aborted, "OF_LATER", "NONE", 0))
	_, err := server.client().Begin(t.Context())
	if failed := failure(t, err); failed.Reason != "OF_LATER" || failed.Effect != EffectNone ||
		status.Code(err) != codes.Aborted {
		t.Errorf("%+v", failed)
	}
}
