package lockstep

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// OffsetsOf says that these records are processed, in the name of a consumer that is a member of a group:
// generation, member and instance go along, so that the broker fences a member that was left behind, and
// so does the cluster that it reads from, so that they cannot go to another one. For
// [Transaction.SendOffsets], or [Enlistment.SendOffsets].
//
// The consumer needs kgo.BlockRebalanceOnPoll: call this between the poll that gave the records and
// AllowRebalance, for a group that moves on in between would take its new generation for theirs. And
// kgo.DisableAutoCommit.
func OffsetsOf(
	ctx context.Context, consumer *kgo.Client, records []*kgo.Record,
) (GroupOffsets, error) {
	if len(records) == 0 {
		return GroupOffsets{}, errors.New("lockstep: no records, no offsets")
	}
	group, err := groupOfConsumer(consumer)
	if err != nil {
		return GroupOffsets{}, err
	}
	clusterID, err := kafkaClusterID(ctx, consumer)
	if err != nil {
		return GroupOffsets{}, err
	}
	last := map[topicPartition]*kgo.Record{}
	for _, record := range records {
		where := topicPartition{record.Topic, record.Partition}
		if known, ok := last[where]; !ok || record.Offset > known.Offset {
			last[where] = record
		}
	}
	offsets := GroupOffsets{Group: group, KafkaClusterID: clusterID}
	for where, record := range last {
		offset := Offset{Topic: where.topic, Partition: where.partition, Offset: record.Offset + 1}
		if record.LeaderEpoch >= 0 {
			offset.LeaderEpoch = &record.LeaderEpoch
		}
		offsets.Offsets = append(offsets.Offsets, offset)
	}
	return offsets, nil
}

func groupOfConsumer(consumer *kgo.Client) (Group, error) {
	id, _ := consumer.OptValue(kgo.ConsumerGroup).(string)
	blocks, _ := consumer.OptValue(kgo.BlockRebalanceOnPoll).(bool)
	manual, _ := consumer.OptValue(kgo.DisableAutoCommit).(bool)
	if id == "" || !blocks || !manual {
		return Group{}, errors.New("lockstep: the consumer needs kgo.ConsumerGroup, " +
			"kgo.BlockRebalanceOnPoll and kgo.DisableAutoCommit")
	}
	group := Group{ID: id}
	group.MemberID, group.Generation = consumer.GroupMetadata()
	if instance := consumer.OptValues(kgo.InstanceID); len(instance) == 2 && instance[1] == true {
		name, _ := instance[0].(string)
		group.InstanceID = &name
	}
	return group, nil
}

// Rewind has these records consumed again: after their transaction has aborted. Call it before
// AllowRebalance; partitions that went to another member are its business.
func Rewind(consumer *kgo.Client, records []*kgo.Record) {
	first := map[string]map[int32]kgo.EpochOffset{}
	for _, record := range records {
		partitions := first[record.Topic]
		if partitions == nil {
			partitions = map[int32]kgo.EpochOffset{}
			first[record.Topic] = partitions
		}
		if known, ok := partitions[record.Partition]; !ok || record.Offset < known.Offset {
			partitions[record.Partition] = kgo.EpochOffset{Epoch: record.LeaderEpoch, Offset: record.Offset}
		}
	}
	consumer.SetOffsets(first)
}

// metadataSource is a kgo.Client.
type metadataSource interface {
	RequestCachedMetadata(
		context.Context, *kmsg.MetadataRequest, time.Duration) (*kmsg.MetadataResponse, error)
}

// kafkaClusterID is what the brokers call their cluster. Asks them only if the client knows none yet.
func kafkaClusterID(ctx context.Context, client metadataSource) (string, error) {
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{}
	response, err := client.RequestCachedMetadata(ctx, request, 0)
	if err != nil {
		return "", err
	}
	if response.ClusterID == nil {
		return "", errors.New("the brokers do not tell their cluster id")
	}
	return *response.ClusterID, nil
}
