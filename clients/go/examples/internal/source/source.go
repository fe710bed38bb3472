// Package source is what the examples read: a group's part of a topic, whose offsets they commit
// themselves.
package source

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	lockstep "github.com/lockstep/lockstep/clients/go"
)

// At most so many records in one transaction.
const atMost = 100

// Each gives what arrives to commit, until the context ends or an error of commit's. What commit has not
// committed (false) comes again.
func Each(
	ctx context.Context, bootstrap, group, topic string,
	commit func(context.Context, []*kgo.Record, lockstep.GroupOffsets) (bool, error),
) error {
	consumer, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		// Lockstep commits the offsets, with the records.
		kgo.DisableAutoCommit(),
		// The group does not move on between a poll and the commit of its records.
		kgo.BlockRebalanceOnPoll(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(2*time.Second),
	)
	if err != nil {
		return err
	}
	defer consumer.CloseAllowingRebalance()
	for {
		fetches := consumer.PollRecords(ctx, atMost)
		if err := errors.Join(fetches.Err0(), ctx.Err()); err != nil {
			return err
		}
		fetches.EachError(func(topic string, partition int32, err error) {
			log.Printf("%s, partition %d: %v", topic, partition, err) // It is fetched again.
		})
		if records := fetches.Records(); len(records) > 0 {
			if err := process(ctx, consumer, records, commit); err != nil {
				return err
			}
		}
		consumer.AllowRebalance()
	}
}

func process(
	ctx context.Context, consumer *kgo.Client, records []*kgo.Record,
	commit func(context.Context, []*kgo.Record, lockstep.GroupOffsets) (bool, error),
) error {
	offsets, err := lockstep.OffsetsOf(ctx, consumer, records)
	if err != nil {
		return err
	}
	committed, err := commit(ctx, records, offsets)
	// Never go on from an unknown outcome: the same records might be written twice.
	var failed *lockstep.Error
	if errors.As(err, &failed) && failed.Effect == lockstep.EffectNone {
		log.Print(err)
		err = nil
	}
	if err == nil && !committed {
		lockstep.Rewind(consumer, records)
	}
	return err
}
