// Enrich reads orders from cluster a, and writes them enriched to cluster b, each exactly once: the
// group's offsets on a and the records on b commit together. The records go to b directly.
//
//	enrich LOCKSTEPD BOOTSTRAP_A BOOTSTRAP_B
//
// Run it again whenever it ends: what was under way is then committed or aborted, and a group's new
// member goes on from there.
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
	if len(os.Args) != 4 {
		log.Fatal("usage: enrich LOCKSTEPD BOOTSTRAP_A BOOTSTRAP_B")
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func run(lockstepd, bootstrapA, bootstrapB string) error {
	client, err := lockstep.Dial(lockstepd)
	if err != nil {
		return err
	}
	defer client.Close()
	b, err := lockstep.NewEnlistedProducer(client, "b", "enrich-1", kgo.SeedBrokers(bootstrapB))
	if err != nil {
		return err
	}
	defer b.Close()

	return source.Each(context.Background(), bootstrapA, "enrich", "orders", func(
		ctx context.Context, orders []*kgo.Record, offsets lockstep.GroupOffsets,
	) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		result, err := client.InTxn(ctx, func(txn *lockstep.Transaction) error {
			enriched, err := txn.Enlist(ctx, b)
			if err != nil {
				return err
			}
			for _, order := range orders {
				record := &kgo.Record{Topic: "enriched", Key: order.Key, Value: enrich(order.Value)}
				if err := enriched.Produce(ctx, record, nil); err != nil {
					return err
				}
			}
			return txn.SendOffsets(ctx, "a", offsets)
		})
		return result.Decided(), err
	})
}

func enrich(order []byte) []byte { return append(order[:len(order):len(order)], " enriched"...) }
