//go:build integration

package lockstep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/lockstep/lockstep/clients/go/lockstepv1"
)

// Real producers on real clusters, of each transaction.version.
func TestOnClusters(t *testing.T) {
	for _, brokers := range []struct{ kafka, transactionVersion string }{
		{"4.4.0", "2"}, {"4.4.0", "1"}, {"3.9.1", "0"},
	} {
		t.Run("TV"+brokers.transactionVersion, func(t *testing.T) {
			s, err := newStack(brokers.kafka, brokers.transactionVersion)
			if s != nil {
				t.Cleanup(s.stop)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, test := range []struct {
				name string
				run  func(*testing.T, *stack)
			}{
				{"ManyInARow", manyInARow},
				{"AbortedIsNowhere", abortedIsNowhere},
				{"NothingWritten", nothingWritten},
				{"Offsets", offsetsOfItsOwnCluster},
				{"OffsetsElsewhere", offsetsOfAnotherCluster},
				{"Consumer", consumerInATransaction},
				{"SuccessorFences", successorFences},
				{"DiscardedLeavesOpen", discardedLeavesOpen},
				{"UnwritableAborts", unwritableAborts},
				{"KilledClient", killedClient},
				{"KilledServer", killedServer},
				{"Managed", managed},
				{"RestartIsNoError", restartIsNoError},
				{"UnknownClusterRefused", unknownClusterRefused},
			} {
				t.Run(test.name, func(t *testing.T) { test.run(t, s) })
			}
		})
	}
}

// pair is two enlisted producers, and how many of theirs were made.
type pair struct {
	t      *testing.T
	s      *stack
	client *Client
	topic  string
	a, b   *EnlistedProducer
	made   atomic.Int32
}

func newPair(t *testing.T, s *stack, opts ...Option) *pair {
	p := &pair{t: t, s: s, client: s.client(t, opts...), topic: s.topic(t)}
	p.a, p.b = p.producer("a"), p.producer("b")
	return p
}

func (p *pair) producer(cluster string) *EnlistedProducer {
	p.t.Helper()
	enlisted := enlistedProducer(p.t, p.s, p.client, cluster, "id-"+p.topic)
	makeOne := enlisted.make
	enlisted.make = func(protocol lockstepv1.ProducerProtocol) (producer, error) {
		p.made.Add(1)
		return makeOne(protocol)
	}
	return enlisted
}

func enlistedProducer(
	t *testing.T, s *stack, client *Client, cluster, id string,
) *EnlistedProducer {
	t.Helper()
	enlisted, err := NewEnlistedProducer(client, cluster, id, kgo.SeedBrokers(s.bootstrap[cluster]),
		kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(enlisted.Close)
	return enlisted
}

// write is one record to each.
func (p *pair) write(ctx context.Context, txn *Transaction, value string) error {
	for _, enlisted := range []*EnlistedProducer{p.a, p.b} {
		out, err := txn.Enlist(ctx, enlisted)
		if err != nil {
			return err
		}
		if err := out.Produce(ctx, &kgo.Record{Topic: p.topic, Value: []byte(value)}, nil); err != nil {
			return err
		}
	}
	return nil
}

func (p *pair) both(value string) Result {
	p.t.Helper()
	ctx := within(p.t, time.Minute)
	result, err := p.client.InTxn(ctx, func(txn *Transaction) error {
		return p.write(ctx, txn, value)
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return result
}

func (p *pair) commit(value string) {
	p.t.Helper()
	expect(p.t, Committed, p.both(value))
}

func (p *pair) expectOnBoth(values ...string) {
	p.t.Helper()
	for _, cluster := range []string{"a", "b"} {
		expectValues(p.t, values, p.s.committed(p.t, cluster, p.topic), cluster)
	}
}

func expect(t *testing.T, outcome Outcome, result Result) {
	t.Helper()
	if result.Outcome != outcome {
		t.Fatalf("%v, not %v", result, outcome)
	}
}

func expectValues(t *testing.T, expected, found []string, where string) {
	t.Helper()
	if !slices.Equal(expected, found) {
		t.Fatalf("on %s: %q, not %q", where, found, expected)
	}
}

func manyInARow(t *testing.T, s *stack) {
	p := newPair(t, s)
	var expected []string
	var took []time.Duration
	for i := range 300 {
		value := strconv.Itoa(i)
		before := time.Now()
		if i%10 == 9 { // Aborts between them.
			txn, err := p.client.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := p.write(t.Context(), txn, value); err != nil {
				t.Fatal(err)
			}
			result, err := txn.Abort(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			expect(t, Aborted, result)
			continue
		}
		p.commit(value)
		took = append(took, time.Since(before))
		expected = append(expected, value)
	}
	p.expectOnBoth(expected...)
	if made := p.made.Load(); made != 2 {
		t.Errorf("%d producers were made for two ids", made)
	}
	slices.Sort(took)
	t.Logf("enlisted pair: median %v, p90 %v, longest %v", took[len(took)/2], took[len(took)*9/10],
		took[len(took)-1])
}

func abortedIsNowhere(t *testing.T, s *stack) {
	p := newPair(t, s)
	p.commit("before")
	txn, err := p.client.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.write(t.Context(), txn, "aborted"); err != nil {
		t.Fatal(err)
	}
	txn.Close()
	failed := errors.New("the work failed")
	if _, err := p.client.InTxn(t.Context(), func(txn *Transaction) error {
		if err := p.write(t.Context(), txn, "failed"); err != nil {
			t.Fatal(err)
		}
		return failed
	}); !errors.Is(err, failed) {
		t.Fatal(err)
	}
	p.commit("after")
	p.expectOnBoth("before", "after")
	if made := p.made.Load(); made != 2 {
		t.Errorf("%d producers were made for two ids", made)
	}
}

func nothingWritten(t *testing.T, s *stack) {
	p := newPair(t, s)
	for i := range 3 {
		result, err := p.client.InTxn(t.Context(), func(txn *Transaction) error {
			if _, err := txn.Enlist(t.Context(), p.a); err != nil {
				return err
			}
			b, err := txn.Enlist(t.Context(), p.b)
			if err != nil {
				return err
			}
			return b.Produce(t.Context(),
				&kgo.Record{Topic: p.topic, Value: []byte("b-" + strconv.Itoa(i))}, nil)
		})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, Committed, result)
	}
	p.commit("both")
	expectValues(t, []string{"both"}, s.committed(t, "a", p.topic), "a")
	expectValues(t, []string{"b-0", "b-1", "b-2", "both"}, s.committed(t, "b", p.topic), "b")
	if made := p.made.Load(); made != 2 {
		t.Errorf("%d producers were made for two ids", made)
	}
}

func standalone(group, topic string, offset int64) GroupOffsets {
	return GroupOffsets{
		Group:   Group{ID: group, Standalone: true},
		Offsets: []Offset{{Topic: topic, Offset: offset}},
	}
}

func offsetsOfItsOwnCluster(t *testing.T, s *stack) {
	p := newPair(t, s)
	group := "g-" + p.topic
	run := func(offset int64, end func(*Transaction) (Result, error), value string) Result {
		t.Helper()
		txn, err := p.client.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer txn.Close()
		out, err := txn.Enlist(t.Context(), p.a)
		if err != nil {
			t.Fatal(err)
		}
		if value != "" {
			if err := out.Produce(t.Context(), &kgo.Record{Topic: p.topic, Value: []byte(value)},
				nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := out.SendOffsets(t.Context(), standalone(group, p.topic, offset)); err != nil {
			t.Fatal(err)
		}
		if err := txn.Produce(t.Context(), "b",
			Record{Topic: p.topic, Value: []byte("through the server")}); err != nil {
			t.Fatal(err)
		}
		result, err := end(txn)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	commit := func(txn *Transaction) (Result, error) { return txn.Commit(t.Context()) }
	abort := func(txn *Transaction) (Result, error) { return txn.Abort(t.Context()) }
	check := func(offset int64) {
		t.Helper()
		if found := s.groupOffset(t, "a", group, p.topic); found != offset {
			t.Fatalf("the group is at %d, not %d", found, offset)
		}
	}
	expect(t, Committed, run(5, commit, "direct"))
	check(5)
	expect(t, Aborted, run(6, abort, "aborted"))
	check(5)
	// No record at all.
	expect(t, Committed, run(7, commit, ""))
	check(7)
	expect(t, Committed, run(8, commit, "after"))
	check(8)
	expectValues(t, []string{"direct", "after"}, s.committed(t, "a", p.topic), "a")
}

func offsetsOfAnotherCluster(t *testing.T, s *stack) {
	p := newPair(t, s)
	b := s.kafka(t, "b")
	if err := b.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	clusterID, err := kafkaClusterID(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	offsets := standalone("g-"+p.topic, p.topic, 5)
	offsets.KafkaClusterID = clusterID
	result, err := p.client.InTxn(t.Context(), func(txn *Transaction) error {
		out, err := txn.Enlist(t.Context(), p.a)
		if err != nil {
			return err
		}
		if err := out.SendOffsets(t.Context(), offsets); err == nil {
			t.Error("offsets of b were taken on a")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, Aborted, result)
}

func consumerInATransaction(t *testing.T, s *stack) {
	p := newPair(t, s)
	p.commit("1")
	p.commit("2")
	group := "g-" + p.topic
	consumer := s.kafka(t, "a", kgo.ConsumerGroup(group), kgo.ConsumeTopics(p.topic),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.InstanceID("one"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	copyOnce := func(end func(*Transaction) (Result, error)) Result {
		t.Helper()
		ctx := within(t, time.Minute)
		defer consumer.AllowRebalance()
		var records []*kgo.Record
		for len(records) < 2 {
			fetches := consumer.PollFetches(ctx)
			if err := errors.Join(fetches.Err0(), ctx.Err()); err != nil {
				t.Fatal(err)
			}
			records = append(records, fetches.Records()...)
		}
		txn, err := p.client.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer txn.Close()
		for _, record := range records {
			if err := txn.Produce(ctx, "b",
				Record{Topic: p.topic, Value: append([]byte("copy "), record.Value...)}); err != nil {
				t.Fatal(err)
			}
		}
		offsets, err := OffsetsOf(ctx, consumer, records)
		if err != nil {
			t.Fatal(err)
		}
		if offsets.Group.MemberID == "" || offsets.Group.Generation <= 0 ||
			offsets.Group.InstanceID == nil || offsets.KafkaClusterID == "" {
			t.Errorf("%+v", offsets)
		}
		if err := txn.SendOffsets(ctx, "a", offsets); err != nil {
			t.Fatal(err)
		}
		result, err := end(txn)
		if err != nil {
			t.Fatal(err)
		}
		if result.Outcome == Aborted {
			Rewind(consumer, records)
		}
		return result
	}
	expect(t, Aborted, copyOnce(func(txn *Transaction) (Result, error) { return txn.Abort(t.Context()) }))
	expect(t, Committed, copyOnce(func(txn *Transaction) (Result, error) {
		return txn.Commit(t.Context())
	}))
	expectValues(t, []string{"1", "2", "copy 1", "copy 2"}, s.committed(t, "b", p.topic), "b")
	if at := s.groupOffset(t, "a", group, p.topic); at <= 0 {
		t.Errorf("the group is at %d", at)
	}
}

func successorFences(t *testing.T, s *stack) {
	p := newPair(t, s)
	p.commit("before")
	successor := p.producer("a")
	txn, err := p.client.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer txn.Close()
	if err := p.write(t.Context(), txn, "zombie"); err != nil {
		t.Fatal(err)
	}
	if err := successor.WarmUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	result, err := txn.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	expect(t, Aborted, result)
	p.a = successor
	p.commit("after")
	p.expectOnBoth("before", "after")
}

func discardedLeavesOpen(t *testing.T, s *stack) {
	p := newPair(t, s)
	txn, err := p.client.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out, err := txn.Enlist(t.Context(), p.a)
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan error)
	if err := out.Produce(t.Context(), &kgo.Record{Topic: p.topic, Value: []byte("open")},
		func(_ *kgo.Record, err error) { written <- err }); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	p.a.Close()
	// Nothing but Lockstep ends it: until then read_committed stops before it.
	if end := s.end(t, "a", p.topic); end != 0 {
		t.Errorf("the last stable offset is %d", end)
	}
	txn.Close()
	p.a = p.producer("a")
	p.commit("after")
	p.expectOnBoth("after")
}

func unwritableAborts(t *testing.T, s *stack) {
	p := newPair(t, s)
	p.commit("before")
	result, err := p.client.InTxn(t.Context(), func(txn *Transaction) error {
		if err := p.write(t.Context(), txn, "with it"); err != nil {
			return err
		}
		out, err := txn.Enlist(t.Context(), p.producer("a"))
		if err == nil {
			t.Error("a cluster has one branch, not two")
			return out.Produce(t.Context(), &kgo.Record{Topic: p.topic}, nil)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, Aborted, result) // Registered anew, which voids the branch.

	// Of a topic that there cannot be.
	result, err = p.client.InTxn(t.Context(), func(txn *Transaction) error {
		out, err := txn.Enlist(t.Context(), p.a)
		if err != nil {
			return err
		}
		return out.Produce(t.Context(), &kgo.Record{Topic: "no such topic"}, nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, Aborted, result)
	if result.Abort.Cluster != "a" {
		t.Errorf("%v", result)
	}
	p.commit("after")
	p.expectOnBoth("before", "after")
}

// ---- kill -9 ----

const killedAt = "LOCKSTEP_TEST_KILLED_AT"

// A process of its own, for killedClient: writes with a pair of the ids that it is given, and dies.
func TestKilledClientProcess(t *testing.T) {
	step := os.Getenv(killedAt)
	if step == "" {
		return
	}
	die := func() { syscall.Kill(os.Getpid(), syscall.SIGKILL) }
	dial := grpc.WithUnaryInterceptor(func(
		ctx context.Context, method string, request, answer any, conn *grpc.ClientConn,
		invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		if strings.HasSuffix(method, "/Commit") && step == "before" {
			die()
		}
		err := invoke(ctx, method, request, answer, conn, opts...)
		if strings.HasSuffix(method, "/Commit") && step == "after" {
			die()
		}
		return err
	})
	inCommit := grpc.WithStatsHandler(dieAfter{step, die})
	client, err := Dial(os.Getenv("LOCKSTEP_TEST_SERVER"), WithGRPC(dial, inCommit))
	if err != nil {
		t.Fatal(err)
	}
	s := &stack{bootstrap: map[string]string{
		"a": os.Getenv("LOCKSTEP_TEST_A"), "b": os.Getenv("LOCKSTEP_TEST_B")}}
	p := &pair{t: t, s: s, client: client, topic: os.Getenv("LOCKSTEP_TEST_TOPIC")}
	p.a, p.b = p.producer("a"), p.producer("b")
	txn, err := client.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.write(t.Context(), txn, "killed "+step); err != nil {
		t.Fatal(err)
	}
	fmt.Println("txn:", txn.ID())
	_, err = txn.Commit(t.Context())
	t.Fatal("alive after Commit: ", err)
}

// dieAfter dies so long after Commit was sent.
type dieAfter struct {
	step string
	die  func()
}

func (d dieAfter) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, dieAfter{}.step, info.FullMethodName)
}

func (d dieAfter) HandleRPC(ctx context.Context, event stats.RPCStats) {
	wait, err := time.ParseDuration(d.step)
	method, _ := ctx.Value(dieAfter{}.step).(string)
	if _, sent := event.(*stats.OutPayload); err == nil && sent && strings.HasSuffix(method, "/Commit") {
		time.AfterFunc(wait, d.die)
	}
}

func (dieAfter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (dieAfter) HandleConn(context.Context, stats.ConnStats)                       {}

// A successor starts at once, with the same ids, and both clusters have the same.
func killedClient(t *testing.T, s *stack) {
	for _, step := range []string{
		"before", "0s", "1ms", "2ms", "4ms", "8ms", "after",
	} {
		t.Run(step, func(t *testing.T) {
			p := newPair(t, s)
			victim := exec.Command(os.Args[0], "-test.run=^TestKilledClientProcess$")
			victim.Env = append(os.Environ(), killedAt+"="+step, "LOCKSTEP_TEST_SERVER="+s.address,
				"LOCKSTEP_TEST_A="+s.bootstrap["a"], "LOCKSTEP_TEST_B="+s.bootstrap["b"],
				"LOCKSTEP_TEST_TOPIC="+p.topic)
			told, err := victim.Output()
			if status := victim.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() {
				t.Fatalf("%v: %s", err, told)
			}
			p.commit("after")

			_, rest, _ := strings.Cut(string(told), "txn: ")
			id, _, _ := strings.Cut(rest, "\n")
			result, err := p.client.Abort(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("killed %s: %v", step, result)
			expected := []string{"after"}
			switch {
			case step == "before", step != "after" && result.Outcome == Aborted:
				expect(t, Aborted, result)
			default:
				expect(t, Committed, result)
				expected = []string{"killed " + step, "after"}
			}
			p.expectOnBoth(expected...)
			p.commit("and on")
			p.expectOnBoth(append(expected, "and on")...)
		})
	}
}

// kill -9 of the server at each step of a commit; the client asks on, and gets one answer.
func killedServer(t *testing.T, s *stack) {
	for _, crash := range []struct {
		step    string
		outcome Outcome
	}{
		{"before_prepare", Aborted},
		{"votes_in", Aborted},
		{"decision_durable", Committed},
		{"participant_ended", Committed},
		{"before_answer", Committed},
		{"completion_durable", Committed},
	} {
		t.Run(crash.step, func(t *testing.T) {
			p := newPair(t, s)
			p.commit("before")
			s.kill()
			if err := s.start("--enable-failpoints", "--failpoint",
				"coordinator."+crash.step+"=crash"); err != nil {
				t.Fatal(err)
			}
			results := make(chan Result)
			go func() { results <- p.both("killed") }()
			s.awaitEnd(t)
			if err := s.start(); err != nil {
				t.Fatal(err)
			}
			expect(t, crash.outcome, <-results)
			p.commit("after")
			if crash.outcome == Committed {
				p.expectOnBoth("before", "killed", "after")
			} else {
				p.expectOnBoth("before", "after")
			}
		})
	}
}

// ---- Through the server ----

func managed(t *testing.T, s *stack) {
	client, topic := s.client(t), s.topic(t)
	run := func(onB string) Result {
		t.Helper()
		result, err := client.InTxn(t.Context(), func(txn *Transaction) error {
			return errors.Join(
				txn.Produce(t.Context(), "a", Record{Topic: topic, Value: []byte("1")}),
				txn.Produce(t.Context(), "b", Record{Topic: onB, Value: []byte("1")}))
		})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	expect(t, Committed, run(topic))
	failed := run("no-such-topic")
	expect(t, Aborted, failed)
	if failed.Abort.Reason != "UNKNOWN_TOPIC" || failed.Abort.Cluster != "b" {
		t.Errorf("%v", failed)
	}
	info, err := client.GetTxn(t.Context(), failed.TxnID)
	if err != nil || info.State != StateAborted {
		t.Errorf("%v, %v", info, err)
	}
	for _, cluster := range []string{"a", "b"} {
		expectValues(t, []string{"1"}, s.committed(t, cluster, topic), cluster)
	}
}

func restartIsNoError(t *testing.T, s *stack) {
	client, topic := s.client(t), s.topic(t)
	key := NewExecuteKey("key-" + topic)
	execute := func() Executed {
		t.Helper()
		done, err := client.Execute(t.Context(), []Work{{
			Cluster: "a", Records: []Record{{Topic: topic, Value: []byte("once")}},
		}}, &key)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, Committed, done.Result)
		return done
	}
	execute()
	lost, err := client.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.kill()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	if !execute().RepeatedKey {
		t.Error("it ran again")
	}
	result, err := lost.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	expect(t, Aborted, result)
	expectValues(t, []string{"once"}, s.committed(t, "a", topic), "a")
}

func unknownClusterRefused(t *testing.T, s *stack) {
	client := s.client(t)
	unknown, err := NewEnlistedProducer(client, "c", "id", kgo.SeedBrokers(s.bootstrap["a"]))
	if err != nil {
		t.Fatal(err)
	}
	var refused *Error
	if err := unknown.WarmUp(t.Context()); !errors.As(err, &refused) ||
		refused.Reason != "UNKNOWN_CLUSTER" || refused.Effect != EffectNone {
		t.Errorf("%v", err)
	}
}
