package lockstep

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
)

// Record is a record for Kafka, serialized. It is not copied before the call ends.
type Record struct {
	Topic     string
	Partition *int32 // nil: as the Java client's partitioner chooses. See [Partition].
	Key       []byte // nil is not empty.
	Value     []byte // nil: a tombstone.
	Headers   []Header
	Timestamp time.Time // Kafka keeps milliseconds. Zero: the time of sending.
}

// Header is a header of a record; Kafka tells a nil value from an empty one.
type Header struct {
	Key   string
	Value []byte
}

// Partition is for [Record.Partition].
func Partition(partition int32) *int32 { return proto.Int32(partition) }

// Group says who commits offsets (KIP-447). The broker fences a stale member only by what it is told
// here.
type Group struct {
	ID         string
	Generation int32 // The member epoch in a KIP-848 group.
	MemberID   string
	InstanceID *string // nil: not a static member.
	// The caller vouches that nobody else commits for this group: no generation, no member id, and so
	// no fencing by the broker.
	Standalone bool
}

// Offset is where a group goes on in a partition.
type Offset struct {
	Topic       string
	Partition   int32
	Offset      int64  // The next one to read: last processed + 1.
	LeaderEpoch *int32 // nil: not known.
	Metadata    string
}

// GroupOffsets are consumer offsets that commit with a transaction. [OffsetsOf] makes them of what a
// franz-go consumer has.
type GroupOffsets struct {
	Group   Group
	Offsets []Offset // At least one; each partition once.
	// Of the cluster that the consumer saw. If not empty, the offsets are refused (WRONG_STATE) unless
	// the named cluster has it.
	KafkaClusterID string
}

// Work is what a whole transaction does on one cluster; see [Client.Execute].
type Work struct {
	Cluster string
	Records []Record
	Offsets *GroupOffsets // nil: none.
}

// ExecuteKey names one piece of work for ever: however often it is executed under its key, at most one
// run of it commits.
type ExecuteKey struct {
	Name   string    // 1 to 256 bytes of printable ASCII without spaces; unique for ever.
	MadeAt time.Time // The same with each use.
}

// NewExecuteKey makes the key now. Store both parts with the work, to be able to execute it again after
// a crash.
func NewExecuteKey(name string) ExecuteKey {
	return ExecuteKey{Name: name, MadeAt: time.Now().Truncate(time.Millisecond)}
}

// Executed is what [Client.Execute] did.
type Executed struct {
	Key    ExecuteKey
	Result Result // Of the run that counts, which may have been an earlier one.
	// The key had committed, or was running, before this call.
	RepeatedKey bool
}

// Outcome is how a transaction ended.
type Outcome string

const (
	// Committed: on every cluster, and visible to read_committed consumers there.
	Committed Outcome = "COMMITTED"
	// Aborted: on no cluster, now and later.
	Aborted Outcome = "ABORTED"
	// Committing: COMMIT is durable and under way. It will not abort; ask again for its end.
	Committing Outcome = "COMMITTING"
	// Heuristic: clusters disagree, or one cannot be known: see the branches.
	Heuristic Outcome = "HEURISTIC"
)

// BranchOutcome is how a transaction ended on one cluster.
type BranchOutcome string

const (
	BranchPending   BranchOutcome = "PENDING" // Not known yet: being asked.
	BranchCommitted BranchOutcome = "COMMITTED"
	BranchAborted   BranchOutcome = "ABORTED"
	BranchUnknown   BranchOutcome = "UNKNOWN" // Cannot be known any more: no evidence is left.
)

// Branch is what a transaction did on one cluster.
type Branch struct {
	Cluster         string
	Outcome         BranchOutcome
	Problem         string // Why it is still pending, or what went wrong; for people.
	TransactionalID string // As the brokers know it. Empty: nothing was written there.
	Enlisted        bool   // By a producer of the client's own.
	ReinitRequired  bool   // That producer must be made anew; [EnlistedProducer] does.
}

// Abort is why a transaction aborted.
type Abort struct {
	// As in lockstep/v1/txn.proto without its prefix: "UNKNOWN_TOPIC", "TXN_TIMEOUT" ... More will
	// come. Empty: no longer kept.
	Reason    string
	Cluster   string // Empty where no cluster is to blame.
	Message   string // For people.
	Retryable bool   // The same work, begun anew, may well succeed.
}

// Result is how a transaction ended: a value, also when it aborted.
type Result struct {
	TxnID    string
	Outcome  Outcome
	Branches []Branch
	Abort    Abort // Of [Aborted] only.
}

// Decided reports whether COMMIT is durable: it is on every cluster, or will be.
func (r Result) Decided() bool { return r.Outcome == Committed || r.Outcome == Committing }

// Err is nil if the transaction is [Result.Decided], and else a [*NotCommittedError]: for programs that
// have no other answer to a transaction that did not commit.
func (r Result) Err() error {
	if r.Decided() {
		return nil
	}
	return &NotCommittedError{Result: r}
}

// String is for people: "ABORTED: UNKNOWN_TOPIC on east: ...".
func (r Result) String() string {
	var text strings.Builder
	text.WriteString(string(r.Outcome))
	if r.Outcome == Aborted {
		text.WriteString(": " + r.Abort.Reason)
		if r.Abort.Cluster != "" {
			text.WriteString(" on " + r.Abort.Cluster)
		}
		if r.Abort.Message != "" {
			text.WriteString(": " + r.Abort.Message)
		}
		return text.String()
	}
	for _, branch := range r.Branches {
		fmt.Fprintf(&text, ", %s %s", branch.Cluster, branch.Outcome)
		if branch.Problem != "" {
			fmt.Fprintf(&text, " (%s)", branch.Problem)
		}
	}
	return text.String()
}

// TxnState is where a transaction stands.
type TxnState string

const (
	StateActive     TxnState = "ACTIVE"     // Takes work.
	StatePreparing  TxnState = "PREPARING"  // Commit was called; not decided. It may still abort.
	StateCommitting TxnState = "COMMITTING" // COMMIT is durable; some cluster is not yet known complete.
	StateCommitted  TxnState = "COMMITTED"
	StateAborting   TxnState = "ABORTING" // It will never commit; some cluster may not have been told.
	StateAborted    TxnState = "ABORTED"
	StateHeuristic  TxnState = "HEURISTIC" // As [Heuristic].
)

// TxnInfo is what is known of a transaction. Times are by the server's clock.
type TxnInfo struct {
	ID        string
	Label     string
	State     TxnState
	BeganAt   time.Time
	ExpiresAt time.Time
	Branches  []Branch
	Abort     Abort // Of ABORTING and ABORTED only.
}
