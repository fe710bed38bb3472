package lockstep

import (
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lockstep/lockstep/clients/go/lockstepv1"
)

// ---- Towards the server ----

func recordsOf(records []Record) []*lockstepv1.Record {
	converted := make([]*lockstepv1.Record, len(records))
	for i, record := range records {
		to := &lockstepv1.Record{
			Topic:     record.Topic,
			Partition: record.Partition,
			Key:       record.Key,
			Value:     record.Value,
		}
		if !record.Timestamp.IsZero() {
			to.Timestamp = timestamppb.New(record.Timestamp)
		}
		for _, header := range record.Headers {
			to.Headers = append(to.Headers, &lockstepv1.Header{Key: header.Key, Value: header.Value})
		}
		converted[i] = to
	}
	return converted
}

func groupOf(group Group) *lockstepv1.ConsumerGroup {
	to := &lockstepv1.ConsumerGroup{GroupId: group.ID}
	if !group.Standalone {
		to.Generation = &group.Generation
		to.MemberId = group.MemberID
		to.GroupInstanceId = group.InstanceID
	}
	return to
}

func offsetsOf(offsets []Offset) []*lockstepv1.Offset {
	converted := make([]*lockstepv1.Offset, len(offsets))
	for i, offset := range offsets {
		converted[i] = &lockstepv1.Offset{
			Topic:       offset.Topic,
			Partition:   offset.Partition,
			Offset:      offset.Offset,
			LeaderEpoch: offset.LeaderEpoch,
			Metadata:    offset.Metadata,
		}
	}
	return converted
}

func worksOf(work []Work) []*lockstepv1.Work {
	var converted []*lockstepv1.Work
	for _, part := range work {
		// Of a part without any work the server says what is wrong.
		if len(part.Records) > 0 || part.Offsets == nil {
			converted = append(converted, &lockstepv1.Work{Kind: &lockstepv1.Work_Produce{
				Produce: &lockstepv1.ProduceWork{
					Cluster: part.Cluster,
					Records: recordsOf(part.Records),
				},
			}})
		}
		if part.Offsets != nil {
			converted = append(converted, &lockstepv1.Work{Kind: &lockstepv1.Work_Offsets{
				Offsets: &lockstepv1.OffsetsWork{
					Cluster:        part.Cluster,
					KafkaClusterId: part.Offsets.KafkaClusterID,
					Group:          groupOf(part.Offsets.Group),
					Standalone:     part.Offsets.Group.Standalone,
					Offsets:        offsetsOf(part.Offsets.Offsets),
				},
			}})
		}
	}
	return converted
}

// ---- From the server ----

// ended is what Commit, Abort and Execute answer.
type ended interface {
	GetOutcome() lockstepv1.Outcome
	GetBranches() []*lockstepv1.Branch
	GetAbort() *lockstepv1.Abort
}

func resultOf(txnID string, answer ended) (Result, error) {
	outcome := Outcome(strings.TrimPrefix(answer.GetOutcome().String(), "OUTCOME_"))
	switch outcome {
	case Committed, Aborted, Committing, Heuristic:
		return Result{
			TxnID:    txnID,
			Outcome:  outcome,
			Branches: branchesOf(answer.GetBranches()),
			Abort:    abortOf(answer.GetAbort()),
		}, nil
	default:
		return Result{}, notUnderstood("outcome", answer.GetOutcome().String())
	}
}

func infoOf(txn *lockstepv1.Transaction) (TxnInfo, error) {
	state := TxnState(strings.TrimPrefix(txn.GetState().String(), "TXN_STATE_"))
	switch state {
	case StateActive, StatePreparing, StateCommitting, StateCommitted, StateAborting, StateAborted,
		StateHeuristic:
		return TxnInfo{
			ID:        txn.GetTxnId(),
			Label:     txn.GetLabel(),
			State:     state,
			BeganAt:   txn.GetBeginTime().AsTime(),
			ExpiresAt: txn.GetExpireTime().AsTime(),
			Branches:  branchesOf(txn.GetBranches()),
			Abort:     abortOf(txn.GetAbort()),
		}, nil
	default:
		return TxnInfo{}, notUnderstood("state", txn.GetState().String())
	}
}

func branchesOf(branches []*lockstepv1.Branch) []Branch {
	converted := make([]Branch, len(branches))
	for i, branch := range branches {
		to := Branch{
			Cluster:         branch.GetCluster(),
			Outcome:         BranchPending,
			Problem:         branch.GetProblem(),
			TransactionalID: branch.GetManaged().GetTransactionalId(),
		}
		switch branch.GetOutcome() {
		case lockstepv1.BranchOutcome_BRANCH_OUTCOME_COMMITTED:
			to.Outcome = BranchCommitted
		case lockstepv1.BranchOutcome_BRANCH_OUTCOME_ABORTED:
			to.Outcome = BranchAborted
		case lockstepv1.BranchOutcome_BRANCH_OUTCOME_UNKNOWN:
			to.Outcome = BranchUnknown
		}
		if enlisted := branch.GetEnlisted(); enlisted != nil {
			to.TransactionalID = enlisted.GetTransactionalId()
			to.Enlisted = true
			to.ReinitRequired = enlisted.GetReinitRequired()
		}
		converted[i] = to
	}
	return converted
}

func abortOf(abort *lockstepv1.Abort) Abort {
	reason := abort.GetReason()
	name := strings.TrimPrefix(reason.String(), "ABORT_REASON_")
	if _, known := lockstepv1.AbortReason_name[int32(reason)]; !known {
		name = "REASON_" + strconv.Itoa(int(reason))
	} else if reason == lockstepv1.AbortReason_ABORT_REASON_UNSPECIFIED {
		name = ""
	}
	return Abort{
		Reason:    name,
		Cluster:   abort.GetCluster(),
		Message:   abort.GetMessage(),
		Retryable: abort.GetRetryable(),
	}
}

// notUnderstood is of a newer server's word. Whatever it means, it is not known here how the call ended.
func notUnderstood(what, value string) *Error {
	return &Error{
		Effect:  EffectUnknown,
		Code:    codes.Internal,
		Message: "the server's " + what + " is not understood: " + value,
	}
}
