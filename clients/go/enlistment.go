package lockstep

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lockstep/lockstep/clients/go/lockstepv1"
)

const (
	// For what was sent before an abort to be acknowledged: records leave within their linger.
	settling = time.Second
	// For the producer's own end: the broker has ended its transaction already, and writes the markers.
	ending = 10 * time.Second
)

// Enlistment is what an [EnlistedProducer] writes in one transaction, of [Transaction.Enlist]. Safe for
// concurrent use; no work is taken once the transaction is being ended.
//
// If any record or offset could not be written, the transaction does not commit, also where the caller
// has seen the error.
type Enlistment struct {
	owner        *EnlistedProducer
	producer     producer
	txnID        string
	registration *lockstepv1.RegisterProducerResponse

	failed context.Context // Done once something could not be written; its cause is the first failure.
	fail   context.CancelCauseFunc
	quiet  chan struct{} // Closed once there is no more work, and all of it is acknowledged.

	mu             sync.Mutex
	open           bool
	unacknowledged int
	highest        map[topicPartition]int64 // Of what is acknowledged.
	groups         map[string]struct{}
}

type topicPartition struct {
	topic     string
	partition int32
}

func newEnlistment(owner *EnlistedProducer, txnID string) *Enlistment {
	failed, fail := context.WithCancelCause(context.Background())
	return &Enlistment{
		owner:        owner,
		producer:     owner.producer,
		txnID:        txnID,
		registration: owner.registration,
		failed:       failed,
		fail:         fail,
		quiet:        make(chan struct{}),
		open:         true,
		highest:      map[topicPartition]int64{},
		groups:       map[string]struct{}{},
	}
}

// Produce is kgo.Client.Produce. The error is of records that are not taken any more; promise, which may
// be nil, tells of the others. Commit flushes, so nothing needs to be waited for.
func (e *Enlistment) Produce(
	ctx context.Context, record *kgo.Record, promise func(*kgo.Record, error),
) error {
	if err := e.start(""); err != nil {
		return err
	}
	e.producer.Produce(ctx, record, func(written *kgo.Record, err error) {
		// Before the promise, which may take its time.
		e.finish(func() {
			where := topicPartition{written.Topic, written.Partition}
			before, known := e.highest[where]
			if !known || written.Offset > before {
				e.highest[where] = written.Offset
			}
		}, err)
		if promise != nil {
			promise(written, err)
		}
	})
	return nil
}

// SendOffsets adds offsets of a group that lives on this producer's own cluster; those of others are for
// [Transaction.SendOffsets]. It returns once the group's coordinator has them.
func (e *Enlistment) SendOffsets(ctx context.Context, offsets GroupOffsets) error {
	if len(offsets.Offsets) == 0 {
		return nil
	}
	if err := e.start(offsets.Group.ID); err != nil {
		return err
	}
	err := e.sendOffsets(ctx, offsets)
	if err != nil {
		err = fmt.Errorf("lockstep: offsets of group %s: %w", offsets.Group.ID, err)
	}
	e.finish(func() {}, err)
	return err
}

// start counts one more that is to be acknowledged.
func (e *Enlistment) start(group string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.open {
		return wrongState("transaction " + e.txnID + " takes no more work")
	}
	e.unacknowledged++
	if group != "" {
		e.groups[group] = struct{}{}
	}
	return nil
}

// finish is the end of what start began.
func (e *Enlistment) finish(acknowledge func(), err error) {
	if err != nil {
		e.fail(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		acknowledge()
	}
	if e.unacknowledged--; e.unacknowledged == 0 && !e.open {
		close(e.quiet)
	}
}

// ---- For the transaction, in this order, by the goroutine that ends it ----

// close takes no more work from here on.
func (e *Enlistment) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open {
		e.open = false
		if e.unacknowledged == 0 {
			close(e.quiet)
		}
	}
}

// flush returns when everything that was sent is acknowledged, or why it is not.
func (e *Enlistment) flush(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.failed, cancel)() // It does not matter any more.
	if err := e.await(ctx, e.producer.Flush); err != nil {
		e.fail(fmt.Errorf("not acknowledged in time: %w", err))
	}
	return context.Cause(e.failed)
}

// quieten is before an abort. What the broker hears of only after the server has looked would be in the
// producer's next transaction. What is not acknowledged after a moment is dropped.
func (e *Enlistment) quieten() {
	for _, drain := range []func(context.Context) error{
		e.producer.Flush, e.producer.AbortBufferedRecords,
	} {
		ctx, cancel := context.WithTimeout(context.Background(), settling)
		err := e.await(ctx, drain)
		cancel()
		if err == nil {
			break
		}
		e.fail(fmt.Errorf("aborted before it was acknowledged: %w", err))
	}
}

func (e *Enlistment) await(ctx context.Context, drain func(context.Context) error) error {
	if err := drain(ctx); err != nil {
		return err
	}
	// What it leaves: of goroutines that are still on their way into Produce.
	select {
	case <-e.quiet:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// work is what was written, after flush.
func (e *Enlistment) work() *lockstepv1.EnlistedWork {
	e.mu.Lock()
	defer e.mu.Unlock()
	work := &lockstepv1.EnlistedWork{
		RegistrationId: e.registration.GetRegistrationId(),
		ReadOnly:       len(e.highest) == 0 && len(e.groups) == 0,
	}
	for where, offset := range e.highest {
		written := &lockstepv1.WrittenPartition{Topic: where.topic, Partition: where.partition}
		if offset >= 0 {
			written.Offset = &offset
		}
		work.Partitions = append(work.Partitions, written)
	}
	for group := range e.groups {
		work.GroupIds = append(work.GroupIds, group)
	}
	return work
}

// end is after the transaction's: after a definite answer the producer's own end says the same. The outcome
// stands, whatever that says. Without one (an error: the result has no outcome; or COMMITTING) the producer
// is closed without an end of its own, for that could tear what is committed elsewhere.
func (e *Enlistment) end(ctx context.Context, result Result) {
	e.owner.release(e, e.ended(ctx, result))
}

// ended reports whether the producer has ended its transaction, and may go on.
func (e *Enlistment) ended(ctx context.Context, result Result) bool {
	var say kgo.TransactionEndTry
	switch result.Outcome {
	case Committed:
		say = kgo.TryCommit
	case Aborted:
		say = kgo.TryAbort
	default:
		return false
	}
	for _, branch := range result.Branches {
		if branch.Cluster == e.owner.cluster && branch.ReinitRequired {
			return false
		}
	}
	// With something unacknowledged franz-go may have another epoch in mind, or come to have one.
	if e.failed.Err() != nil || e.unknownToProducer() {
		return false
	}
	// Not the caller's: an end that is cut short leaves a producer that cannot go on.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ending)
	defer cancel()
	if err := e.producer.EndTransaction(ctx, say); err != nil {
		e.owner.connection.log().Info("a producer is made anew: it could not end its own transaction",
			"producer", e.owner.String(), "txn", e.txnID, "outcome", result.Outcome, "error", err)
		return false
	}
	return true
}

// unknownToProducer reports whether franz-go does not know that the broker has begun a transaction, so
// that its own end sends nothing: under TV2 it does not learn the epoch that the server's end has made.
func (e *Enlistment) unknownToProducer() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.registration.GetProtocol() == lockstepv1.ProducerProtocol_PRODUCER_PROTOCOL_TV2 &&
		len(e.groups) > 0 && len(e.highest) == 0
}

// ---- Offsets ----

// franz-go commits offsets in transactions only by a GroupTransactSession. These are its two requests.
func (e *Enlistment) sendOffsets(ctx context.Context, offsets GroupOffsets) error {
	if offsets.KafkaClusterID != "" {
		here, err := kafkaClusterID(ctx, e.producer)
		if err != nil {
			return err
		}
		if here != offsets.KafkaClusterID {
			return fmt.Errorf("the consumer is on Kafka cluster %s, the producer on %s (%s): send them with "+
				"Transaction.SendOffsets, to the cluster where their group lives",
				offsets.KafkaClusterID, here, e.owner.cluster)
		}
	}
	id, epoch, err := e.producer.ProducerID(ctx)
	if err != nil {
		return err
	}
	if e.registration.GetProtocol() == lockstepv1.ProducerProtocol_PRODUCER_PROTOCOL_TV1 {
		request := kmsg.NewPtrAddOffsetsToTxnRequest()
		request.TransactionalID = e.owner.transactionalID
		request.ProducerID, request.ProducerEpoch = id, epoch
		request.Group = offsets.Group.ID
		if err := e.untilPossible(ctx, request, func(response kmsg.Response) int16 {
			return response.(*kmsg.AddOffsetsToTxnResponse).ErrorCode
		}); err != nil {
			return err
		}
	}
	request := txnOffsetCommit(offsets)
	request.TransactionalID = e.owner.transactionalID
	request.ProducerID, request.ProducerEpoch = id, epoch
	return e.untilPossible(ctx, request, func(response kmsg.Response) int16 {
		for _, topic := range response.(*kmsg.TxnOffsetCommitResponse).Topics {
			for _, partition := range topic.Partitions {
				if partition.ErrorCode != 0 {
					return partition.ErrorCode
				}
			}
		}
		return 0
	})
}

// untilPossible repeats a request while the broker still ends the transaction before.
func (e *Enlistment) untilPossible(
	ctx context.Context, request kmsg.Request, code func(kmsg.Response) int16,
) error {
	const pause = 20 * time.Millisecond
	for {
		response, err := e.producer.Request(ctx, request)
		if err != nil {
			return err
		}
		err = kerr.ErrorForCode(code(response))
		if !errors.Is(err, kerr.ConcurrentTransactions) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

func txnOffsetCommit(offsets GroupOffsets) *kmsg.TxnOffsetCommitRequest {
	request := kmsg.NewPtrTxnOffsetCommitRequest()
	request.Group = offsets.Group.ID
	request.Generation = -1
	if !offsets.Group.Standalone {
		request.Generation = offsets.Group.Generation
		request.MemberID = offsets.Group.MemberID
		request.InstanceID = offsets.Group.InstanceID
	}
	topics := map[string][]kmsg.TxnOffsetCommitRequestTopicPartition{}
	for _, offset := range offsets.Offsets {
		partition := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		partition.Partition = offset.Partition
		partition.Offset = offset.Offset
		if offset.LeaderEpoch != nil {
			partition.LeaderEpoch = *offset.LeaderEpoch
		}
		partition.Metadata = &offset.Metadata
		topics[offset.Topic] = append(topics[offset.Topic], partition)
	}
	for name, partitions := range topics {
		topic := kmsg.NewTxnOffsetCommitRequestTopic()
		topic.Topic = name
		topic.Partitions = partitions
		request.Topics = append(request.Topics, topic)
	}
	return request
}
