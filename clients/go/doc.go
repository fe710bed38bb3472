// Package lockstep commits one transaction over several Kafka clusters, through lockstepd.
//
//	client, err := lockstep.Dial("127.0.0.1:7420") // one for the process
//	...
//	result, err := client.InTxn(ctx, func(txn *lockstep.Transaction) error {
//		if err := txn.Produce(ctx, "east", order); err != nil {
//			return err
//		}
//		return txn.Produce(ctx, "west", order)
//	})
//
// An outcome is data: err tells of calls that failed, and [Result] of how the transaction ended, which
// may be ABORTED. [Result.Err] makes an error of that.
//
// Records can also go to the brokers directly, by a franz-go producer that takes part in the
// transaction: [EnlistedProducer].
//
// Calls retry inside, until an answer, the end of their context, or the client's call timeout where the
// context has no deadline: lost connections, lost answers and a server that restarts are not errors. A
// call is repeated so that it takes effect once.
package lockstep
