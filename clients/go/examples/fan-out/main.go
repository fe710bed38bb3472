// Fan-out copies the events of one cluster to a primary and to a disaster recovery cluster, to both or to
// neither, each exactly once: the records on both and the group's offsets commit together.
//
//	fan-out LOCKSTEPD BOOTSTRAP_SOURCE SOURCE PRIMARY RECOVERY
//
// The last three are names from lockstepd's configuration. Run it again whenever it ends: what was under
// way is then committed or aborted, and a group's new member goes on from there.
package main

import (
	"context"
	"log"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	lockstep "github.com/lockstep/lockstep/clients/go"
	"github.com/lockstep/lockstep/clients/go/examples/internal/source"
)

const patience = 10 * time.Minute

func main() {
	if len(os.Args) != 6 {
		log.Fatal("usage: fan-out LOCKSTEPD BOOTSTRAP_SOURCE SOURCE PRIMARY RECOVERY")
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		log.Fatal(err)
	}
}

func run(lockstepd, bootstrap, from string, targets []string) error {
	client, err := lockstep.Dial(lockstepd)
	if err != nil {
		return err
	}
	defer client.Close()

	return source.Each(context.Background(), bootstrap, "fan-out", "events", func(
		ctx context.Context, events []*kgo.Record, offsets lockstep.GroupOffsets,
	) (bool, error) {
		copies := make([]lockstep.Record, len(events))
		for i, event := range events {
			copies[i] = lockstep.Record{Topic: "events-copy", Key: event.Key, Value: event.Value}
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		result, err := client.InTxn(ctx, func(txn *lockstep.Transaction) error {
			for _, target := range targets {
				if err := txn.Produce(ctx, target, copies...); err != nil {
					return err
				}
			}
			return txn.SendOffsets(ctx, from, offsets)
		})
		return result.Decided(), err
	})
}
