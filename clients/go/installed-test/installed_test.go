// Package installed is of a project that has nothing but the module: it must build, and reach no server.
package installed

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	lockstep "github.com/lockstep/lockstep/clients/go"
)

func TestInstalled(t *testing.T) {
	client, err := lockstep.Dial("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	producer, err := lockstep.NewEnlistedProducer(client, "east", "id", kgo.SeedBrokers("127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = client.InTxn(ctx, func(txn *lockstep.Transaction) error {
		_, err := txn.Enlist(ctx, producer)
		return err
	})
	var failed *lockstep.Error
	if !errors.As(err, &failed) || failed.Effect != lockstep.EffectUnknown {
		t.Error(err)
	}
}
