package lockstep

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/lockstep/lockstep/clients/go/lockstepv1"
)

const (
	// Kafka aborts what is open for longer, decided or not. The brokers' default for the longest that
	// they grant.
	transactionTimeout = 15 * time.Minute
	// After a registration the producer is initialised at once or not at all: one that comes late would
	// abort what a successor, registered meanwhile, has prepared.
	initialising = 10 * time.Second
)

// EnlistedProducer is a transactional franz-go producer of this process that takes part in Lockstep's
// transactions: its records go to the brokers directly, and only the end of its transactions is the
// server's.
//
//	east, err := lockstep.NewEnlistedProducer(client, "east", "shop-1", kgo.SeedBrokers("east:9092"))
//	...
//	result, err := client.InTxn(ctx, func(txn *lockstep.Transaction) error {
//		orders, err := txn.Enlist(ctx, east)
//		if err != nil {
//			return err
//		}
//		return orders.Produce(ctx, kgo.KeyStringRecord("42", "ten apples"), nil)
//	})
//
// It owns its kgo.Client: it registers the transactional.id with the server, makes the client,
// initialises it, ends its transactions as the server decided, and makes it anew whenever what was before
// must not go on. So nobody else may initialise or end anything under its transactional.id: give each
// instance an id of its own, the same after each restart. Two that live at once with one id fence each
// other in turn.
//
// One transaction at a time. Safe for concurrent use, but the goroutine that has the transaction ends it.
type EnlistedProducer struct {
	connection      *connection
	cluster         string
	transactionalID string
	protocol        lockstepv1.ProducerProtocol // The best that the client speaks.
	make            func(lockstepv1.ProducerProtocol) (producer, error)

	mu           sync.Mutex
	producer     producer // nil: to be made, under a new registration.
	registration *lockstepv1.RegisterProducerResponse
	current      *Enlistment // nil: no transaction.
	closed       bool
}

// producer is what is used of a kgo.Client.
type producer interface {
	kmsg.Requestor
	metadataSource
	ProducerID(context.Context) (int64, int16, error)
	BeginTransaction() error
	Produce(context.Context, *kgo.Record, func(*kgo.Record, error))
	Flush(context.Context) error
	AbortBufferedRecords(context.Context) error
	EndTransaction(context.Context, kgo.TransactionEndTry) error
	Close()
}

// NewEnlistedProducer makes one around a kgo.Client of these options. It connects to nothing yet.
//
// cluster is a name from the server's configuration. kgo.TransactionTimeout is 15 minutes unless it is set
// here: when the server has decided and then cannot reach the cluster for longer than that, Kafka aborts
// what was to commit. kgo.TransactionalID comes from here alone. Consuming is for a client of its own; a
// kgo.GroupTransactSession, which ends its own transactions, cannot be enlisted: use a plain consumer,
// [OffsetsOf] and [Rewind].
func NewEnlistedProducer(
	client *Client, cluster, transactionalID string, opts ...kgo.Opt,
) (*EnlistedProducer, error) {
	if transactionalID == "" {
		return nil, errors.New("lockstep: a transactional.id is missing")
	}
	own := append([]kgo.Opt{kgo.TransactionTimeout(transactionTimeout)}, opts...)
	own = append(own, kgo.TransactionalID(transactionalID))
	// Tells what the options say, and what is wrong with them.
	probe, err := kgo.NewClient(own...)
	if err != nil {
		return nil, fmt.Errorf("lockstep: %w", err)
	}
	defer probe.Close()
	if err := producesOnly(probe); err != nil {
		return nil, err
	}
	versions, _ := probe.OptValue(kgo.MaxVersions).(*kversion.Versions)
	return &EnlistedProducer{
		connection:      client.connection,
		cluster:         cluster,
		transactionalID: transactionalID,
		protocol:        bestProtocol(versions),
		make: func(protocol lockstepv1.ProducerProtocol) (producer, error) {
			return kgo.NewClient(append(own[:len(own):len(own)],
				kgo.MaxVersions(versionsFor(protocol, versions)))...)
		},
	}, nil
}

func producesOnly(client *kgo.Client) error {
	group, _ := client.OptValue(kgo.ConsumerGroup).(string)
	topics, _ := client.OptValue(kgo.ConsumeTopics).([]string)
	if group != "" || len(topics) > 0 {
		return errors.New("lockstep: an enlisted producer does not consume, and a GroupTransactSession " +
			"cannot be enlisted: consume with a kgo.Client of its own, and commit its offsets with " +
			"SendOffsets")
	}
	return nil
}

// bestProtocol is TV2 (KIP-890), unless the caller's limits keep franz-go from it.
func bestProtocol(limits *kversion.Versions) lockstepv1.ProducerProtocol {
	if limits != nil {
		for key, needed := range map[kmsg.Key]int16{kmsg.Produce: 12, kmsg.EndTxn: 5, kmsg.TxnOffsetCommit: 5} {
			if highest, ok := limits.LookupMaxKeyVersion(key.Int16()); !ok || highest < needed {
				return lockstepv1.ProducerProtocol_PRODUCER_PROTOCOL_TV1
			}
		}
	}
	return lockstepv1.ProducerProtocol_PRODUCER_PROTOCOL_TV2
}

// versionsFor keeps franz-go to the protocol that the server ends its transactions with: it looks for
// itself at each begin what the cluster has come to speak. TxnOffsetCommit v6 wants topic ids.
func versionsFor(
	protocol lockstepv1.ProducerProtocol, limits *kversion.Versions,
) *kversion.Versions {
	own := map[int16]int16{kmsg.TxnOffsetCommit.Int16(): 5}
	if protocol == lockstepv1.ProducerProtocol_PRODUCER_PROTOCOL_TV1 {
		own = map[int16]int16{kmsg.TxnOffsetCommit.Int16(): 4, kmsg.EndTxn.Int16(): 4}
	}
	if limits == nil {
		limits = kversion.Stable()
	}
	versions := new(kversion.Versions)
	limits.EachMaxKeyVersion(func(key, highest int16) {
		if limit, ok := own[key]; ok {
			highest = min(highest, limit)
		}
		versions.SetMaxKeyVersion(key, highest)
	})
	return versions
}

// Cluster is the name of its cluster.
func (p *EnlistedProducer) Cluster() string { return p.cluster }

// TransactionalID is its transactional.id.
func (p *EnlistedProducer) TransactionalID() string { return p.transactionalID }

func (p *EnlistedProducer) String() string { return p.transactionalID + " on " + p.cluster }

// WarmUp registers and initialises the producer now rather than in the first transaction: a wrong
// configuration shows at once, and the first transaction is as fast as the others.
func (p *EnlistedProducer) WarmUp(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != nil {
		return nil
	}
	return p.ready(ctx)
}

// enlist returns once Enlist is OK: the producer may write.
func (p *EnlistedProducer) enlist(
	ctx context.Context, asked *connection, txnID string,
) (*Enlistment, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if asked != p.connection {
		return nil, wrongState("the transaction is another client's than the producer " + p.String())
	}
	if p.current != nil {
		return nil, wrongState("the producer " + p.String() + " is in transaction " + p.current.txnID)
	}
	err := p.enlistOnce(ctx, txnID)
	if isFenced(err) {
		// Void, of an earlier start of the server, or to be renewed. Only once: fenced again, somebody
		// else has a producer with this id at work, and the caller should know.
		p.discard()
		if err = p.enlistOnce(ctx, txnID); isFenced(err) {
			p.discard()
		}
	}
	if err != nil {
		return nil, err
	}
	p.current = newEnlistment(p, txnID)
	return p.current, nil
}

func (p *EnlistedProducer) enlistOnce(ctx context.Context, txnID string) error {
	if err := p.ready(ctx); err != nil {
		return err
	}
	// Of the initialisation, or of its latest end: known, so that no broker is asked.
	id, epoch, err := p.producer.ProducerID(ctx)
	if err != nil {
		p.discard()
		return fmt.Errorf("lockstep: %v: %w", p, err)
	}
	wideEpoch := int32(epoch)
	answer, err := call(ctx, p.connection, p.connection.stub.Enlist,
		&lockstepv1.EnlistRequest{
			TxnId:          txnID,
			RegistrationId: p.registration.GetRegistrationId(),
			ProducerId:     &id,
			ProducerEpoch:  &wideEpoch,
		}, behaviour[*lockstepv1.EnlistResponse]{})
	if err != nil {
		return err
	}
	// Registrations do not outlive their server, so FENCED tells of a restart. Should another start
	// accept one all the same, its word is not taken: the transaction can only be aborted.
	if now := answer.GetIncarnation(); now != 0 && now != p.registration.GetIncarnation() {
		p.discard()
		return wrongState("the server has restarted: begin anew").with(EffectUnknown, "")
	}
	return nil
}

// ready makes a producer that is initialised under a registration, if there is none.
func (p *EnlistedProducer) ready(ctx context.Context) error {
	if p.closed {
		return wrongState("the producer " + p.String() + " is closed")
	}
	if p.producer != nil {
		return nil
	}
	registration, err := call(ctx, p.connection, p.connection.stub.RegisterProducer,
		&lockstepv1.RegisterProducerRequest{
			Cluster:         p.cluster,
			TransactionalId: p.transactionalID,
			Protocol:        p.protocol,
		}, behaviour[*lockstepv1.RegisterProducerResponse]{})
	if err != nil {
		return err
	}
	made, err := p.make(registration.GetProtocol())
	if err != nil {
		return fmt.Errorf("lockstep: %v: %w", p, err)
	}
	// Initialises. Right after the registration: who initialises last owns the id.
	ctx, cancel := context.WithTimeout(ctx, initialising)
	defer cancel()
	if _, _, err := made.ProducerID(ctx); err != nil {
		made.Close()
		return fmt.Errorf("lockstep: %v: initialise: %w", p, err)
	}
	p.producer, p.registration = made, registration
	return nil
}

// release is of a transaction that is over. The producer goes on, unless usable is false.
func (p *EnlistedProducer) release(enlistment *Enlistment, usable bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != enlistment {
		return
	}
	p.current = nil
	if !usable {
		p.discard()
	}
}

// discard lets the producer go without an end: kgo's Close sends none.
func (p *EnlistedProducer) discard() {
	if p.producer != nil {
		p.producer.Close()
	}
	p.producer, p.registration = nil, nil
}

// Close closes the producer. If it still is in a transaction, that can only abort: end the transaction
// first.
func (p *EnlistedProducer) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.current != nil {
		p.current.close()
		p.current.fail(errors.New("the producer is closed"))
		p.current = nil
	}
	p.discard()
}
