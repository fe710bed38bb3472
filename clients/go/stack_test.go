//go:build integration

package lockstep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// stack is two real clusters, a and b, and a lockstepd that may be killed and comes back where it was.
type stack struct {
	folder    string
	program   string
	bootstrap map[string]string
	address   string
	daemon    *exec.Cmd
	ended     chan struct{} // Closed once the daemon has.
}

func repository(path ...string) string {
	root, err := filepath.Abs("../..")
	if err != nil {
		panic(err)
	}
	return filepath.Join(append([]string{root}, path...)...)
}

func newStack(kafka, transactionVersion string) (*stack, error) {
	temporary := os.Getenv("TMPDIR")
	if temporary == "" {
		temporary = "/var/tmp"
	}
	folder, err := os.MkdirTemp(temporary, "lockstep-go.")
	if err != nil {
		return nil, err
	}
	s := &stack{folder: folder, program: os.Getenv("LOCKSTEPD"), bootstrap: map[string]string{}}
	if s.program == "" {
		s.program = repository("build/debug/src/server/lockstepd")
	}
	if err := s.clusters("start", "--name", "a", "--name", "b", "--kafka", kafka,
		"--transaction-version", transactionVersion); err != nil {
		return s, err
	}
	environment, err := os.ReadFile(filepath.Join(folder, "clusters", "clusters.env"))
	if err != nil {
		return s, err
	}
	for _, name := range []string{"a", "b"} {
		_, rest, _ := strings.Cut(string(environment),
			"LOCKSTEP_CLUSTER_"+strings.ToUpper(name)+"_BOOTSTRAP=")
		address, _, _ := strings.Cut(rest, "\n")
		s.bootstrap[name] = strings.Trim(address, "'\"")
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return s, err
	}
	s.address = free.Addr().String()
	free.Close()
	configuration := fmt.Sprintf("listen: %s\ndata_dir: %s/data\nclusters:\n", s.address, folder)
	for name, address := range s.bootstrap {
		configuration += fmt.Sprintf("  - name: %s\n    bootstrap_servers: %s\n", name, address)
	}
	if err := os.WriteFile(s.configuration(), []byte(configuration), 0o600); err != nil {
		return s, err
	}
	return s, s.start()
}

func (s *stack) configuration() string { return filepath.Join(s.folder, "lockstepd.yaml") }

func (s *stack) clusters(command string, arguments ...string) error {
	words := append([]string{command, "--dir", filepath.Join(s.folder, "clusters")}, arguments...)
	var told bytes.Buffer
	run := exec.Command(repository("scripts/clusters"), words...)
	run.Stdout, run.Stderr = &told, &told
	if err := run.Run(); err != nil {
		return fmt.Errorf("scripts/clusters %s: %w: %s", command, err, told.String())
	}
	return nil
}

// start returns at once: clients try until it serves.
func (s *stack) start(options ...string) error {
	log, err := os.OpenFile(filepath.Join(s.folder, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	daemon := exec.Command(s.program, append([]string{"--config", s.configuration()}, options...)...)
	daemon.Stdout, daemon.Stderr = log, log
	if err := daemon.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		daemon.Wait()
		close(ended)
	}()
	s.daemon, s.ended = daemon, ended
	return nil
}

// kill is kill -9.
func (s *stack) kill() {
	s.daemon.Process.Kill()
	<-s.ended
}

// awaitEnd returns when it has ended by itself, at a failpoint.
func (s *stack) awaitEnd(t *testing.T) {
	t.Helper()
	select {
	case <-s.ended:
	case <-time.After(time.Minute):
		t.Fatal("lockstepd did not end")
	}
}

func (s *stack) stop() {
	if s.daemon != nil {
		s.daemon.Process.Signal(os.Interrupt)
		select {
		case <-s.ended:
		case <-time.After(20 * time.Second):
			s.kill()
		}
	}
	s.clusters("stop")
	os.RemoveAll(s.folder)
}

func (s *stack) kafka(t *testing.T, cluster string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(s.bootstrap[cluster]))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseAllowingRebalance)
	return client
}

// topic makes a topic of one partition on both clusters, named after the test.
func (s *stack) topic(t *testing.T) string {
	t.Helper()
	name := strings.NewReplacer("/", "-", ".", "-").Replace(t.Name())
	for cluster := range s.bootstrap {
		client := s.kafka(t, cluster)
		request := kmsg.NewPtrCreateTopicsRequest()
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
		request.Topics = append(request.Topics, topic)
		response, err := request.RequestWith(t.Context(), client)
		if err == nil {
			err = kerr.ErrorForCode(response.Topics[0].ErrorCode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return name
}

// end is the topic's last stable offset.
func (s *stack) end(t *testing.T, cluster, topic string) int64 {
	t.Helper()
	client := s.kafka(t, cluster)
	request := kmsg.NewPtrListOffsetsRequest()
	request.IsolationLevel = 1
	asked := kmsg.NewListOffsetsRequestTopic()
	asked.Topic = topic
	partition := kmsg.NewListOffsetsRequestTopicPartition()
	partition.Timestamp = -1
	asked.Partitions = append(asked.Partitions, partition)
	request.Topics = append(request.Topics, asked)
	response, err := request.RequestWith(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	told := response.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(told.ErrorCode); err != nil {
		t.Fatal(err)
	}
	return told.Offset
}

// committed is every value that a read_committed consumer sees, to the last stable offset.
func (s *stack) committed(t *testing.T, cluster, topic string) []string {
	t.Helper()
	end := s.end(t, cluster, topic)
	// Before the last stable offset stands a marker, always, and a marker is shown.
	client := s.kafka(t, cluster, kgo.ConsumeTopics(topic), kgo.KeepControlRecords(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	values := []string{}
	for next := int64(0); next < end; {
		fetches := client.PollFetches(t.Context())
		if err := errors.Join(fetches.Err0(), t.Context().Err()); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			next = record.Offset + 1
			if !record.Attrs.IsControl() {
				values = append(values, string(record.Value))
			}
		})
	}
	return values
}

// groupOffset is where a group goes on; -1: nowhere yet.
func (s *stack) groupOffset(t *testing.T, cluster, group, topic string) int64 {
	t.Helper()
	client := s.kafka(t, cluster)
	request := kmsg.NewPtrOffsetFetchRequest()
	asked := kmsg.NewOffsetFetchRequestGroup()
	asked.Group = group
	of := kmsg.NewOffsetFetchRequestGroupTopic()
	of.Topic, of.Partitions = topic, []int32{0}
	asked.Topics = append(asked.Topics, of)
	request.Groups = append(request.Groups, asked)
	request.RequireStable = true
	response, err := request.RequestWith(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	return response.Groups[0].Topics[0].Partitions[0].Offset
}

func (s *stack) client(t *testing.T, opts ...Option) *Client {
	t.Helper()
	client, err := Dial(s.address, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func within(t *testing.T, timeout time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	return ctx
}
