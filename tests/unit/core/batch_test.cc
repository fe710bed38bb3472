// The two-phase commit of one batch, step by step.

#include "txn/batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

namespace lockstep::txn {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

constexpr MonoTime kNow{1000s};
constexpr Duration kMargin = 10s;

PreparedParticipant Prepared(const std::string& cluster) {
  return {.name = {.cluster = ClusterName(cluster),
                   .kafka_cluster_id = KafkaClusterId("kafka-" + cluster),
                   .transactional_id = TransactionalId("id-" + cluster),
                   .producer_id = ProducerId(7),
                   .producer_epoch = ProducerEpoch(3),
                   .start_time_ms = 42},
          .evidence = {{{"orders", 0}, 5}}};
}

Vote Yes(const std::string& cluster, MonoTime deadline = kNow + 60s) {
  return {.kind = Vote::Kind::kYes, .prepared = Prepared(cluster), .deadline = deadline};
}

Vote ReadOnly() { return {.kind = Vote::Kind::kReadOnly}; }

Vote No(const std::string& cluster) {
  return {.kind = Vote::Kind::kNo,
          .refusal = {AbortReason::kUnknownTopic, ClusterName(cluster), "no topic", false}};
}

VoteArrived Arrives(std::size_t participant, Vote vote) {
  return {participant, std::move(vote), kNow, kMargin};
}

Batch TwoClusters() { return NewBatch(BatchId(1), {{ClusterName("a")}, {ClusterName("b")}}); }

/// Two clusters, both YES, the decision durable.
Batch Decided() {
  Batch batch = TwoClusters();
  Step(batch, Arrives(0, Yes("a")));
  Step(batch, Arrives(1, Yes("b")));
  Step(batch, DecisionStored{});
  return batch;
}

template <typename Effect>
int Count(const std::vector<BatchEffect>& effects) {
  int count = 0;
  for (const auto& effect : effects) count += std::holds_alternative<Effect>(effect);
  return count;
}

template <typename Effect>
Effect Only(const std::vector<BatchEffect>& effects) {
  EXPECT_EQ(Count<Effect>(effects), 1);
  for (const auto& effect : effects) {
    if (const auto* found = std::get_if<Effect>(&effect)) return *found;
  }
  return {};
}

TEST(BatchTest, DecidesOnlyOnceEveryParticipantVotedYes) {
  Batch batch = TwoClusters();
  EXPECT_TRUE(Step(batch, Arrives(0, Yes("a"))).empty());
  const auto effects = Step(batch, Arrives(1, Yes("b")));
  EXPECT_EQ(effects.size(), 1u);
  EXPECT_EQ(Count<StoreDecision>(effects), 1);
  EXPECT_EQ(batch.phase, BatchPhase::kDeciding);
}

TEST(BatchTest, NobodyIsToldBeforeTheDecisionIsDurable) {
  Batch batch = TwoClusters();
  Step(batch, Arrives(0, Yes("a")));
  const auto before = Step(batch, Arrives(1, Yes("b")));
  EXPECT_EQ(Count<EndParticipant>(before), 0);
  EXPECT_EQ(Count<AnnounceDecided>(before), 0);
  const auto after = Step(batch, DecisionStored{});
  EXPECT_EQ(Count<EndParticipant>(after), 2);
  EXPECT_EQ(Count<AnnounceDecided>(after), 1);
  EXPECT_EQ(Count<AnnounceOutcome>(after), 0);
}

TEST(BatchTest, OneNoAbortsAllAndIsTheReason) {
  Batch batch = TwoClusters();
  Step(batch, Arrives(0, Yes("a")));
  const auto effects = Step(batch, Arrives(1, No("b")));
  EXPECT_EQ(Count<EndParticipant>(effects), 2);
  for (const auto& effect : effects) {
    if (const auto* end = std::get_if<EndParticipant>(&effect)) {
      EXPECT_EQ(end->direction, Direction::kAbort);
    }
  }
  EXPECT_EQ(Only<AnnounceOutcome>(effects).outcome, GlobalTxnState::kAborted);
  EXPECT_EQ(batch.refusal.reason, AbortReason::kUnknownTopic);
  EXPECT_EQ(batch.refusal.cluster, ClusterName("b"));
}

TEST(BatchTest, AnAbortBeforeTheLastVoteWins) {
  Batch batch = TwoClusters();
  Step(batch, Arrives(0, Yes("a")));
  const auto effects = Step(batch, AbortWanted{{AbortReason::kClientAbort, {}, "", false}});
  EXPECT_EQ(Count<EndParticipant>(effects), 2) << "also the one that still prepares";
  EXPECT_TRUE(Step(batch, Arrives(1, Yes("b"))).empty()) << "a late vote changes nothing";
  EXPECT_EQ(batch.phase, BatchPhase::kAborting);
}

TEST(BatchTest, AnAbortAfterTheDecisionWasHandedToTheLogLoses) {
  Batch batch = TwoClusters();
  Step(batch, Arrives(0, Yes("a")));
  Step(batch, Arrives(1, Yes("b")));
  EXPECT_TRUE(Step(batch, AbortWanted{}).empty());
  EXPECT_EQ(batch.phase, BatchPhase::kDeciding);
  Step(batch, DecisionStored{});
  EXPECT_TRUE(Step(batch, AbortWanted{}).empty());
  EXPECT_EQ(batch.phase, BatchPhase::kCommitting);
}

TEST(BatchTest, DoesNotDecideNearKafkasDeadline) {
  Batch batch = TwoClusters();
  Step(batch, Arrives(0, Yes("a", kNow + kMargin)));  // Exactly the margin is too little.
  const auto effects = Step(batch, Arrives(1, Yes("b")));
  EXPECT_EQ(Count<StoreDecision>(effects), 0);
  EXPECT_EQ(batch.refusal.reason, AbortReason::kDeadlineTooClose);
  EXPECT_EQ(batch.refusal.cluster, ClusterName("a"));
  EXPECT_TRUE(batch.refusal.retriable);
}

TEST(BatchTest, CommittedIsToldWhenAllAreKnownAndLanesAreFreedWhenThatIsDurable) {
  Batch batch = Decided();
  auto effects = Step(batch, ParticipantEnded{0, ParticipantOutcome::kCommitted});
  EXPECT_EQ(Count<AnnounceOutcome>(effects), 0);
  EXPECT_EQ(Count<ReleaseParticipant>(effects), 0) << "its completion is not durable";
  effects = Step(batch, ParticipantEnded{1, ParticipantOutcome::kCommitted});
  EXPECT_EQ(Only<AnnounceOutcome>(effects).outcome, GlobalTxnState::kCommitted);
  EXPECT_EQ(Only<ReleaseParticipant>(Step(batch, CompletionStored{1})).participant, 1u);
  EXPECT_NE(batch.phase, BatchPhase::kDone);
  Step(batch, CompletionStored{0});
  EXPECT_EQ(batch.phase, BatchPhase::kDone);
}

TEST(BatchTest, HeuristicIsToldOnlyOnceItIsDurable) {
  for (const auto bad : {ParticipantOutcome::kAborted, ParticipantOutcome::kUnknown}) {
    Batch batch = Decided();
    Step(batch, ParticipantEnded{0, ParticipantOutcome::kCommitted});
    EXPECT_EQ(Count<AnnounceOutcome>(Step(batch, ParticipantEnded{1, bad})), 0);
    EXPECT_EQ(Count<AnnounceOutcome>(Step(batch, CompletionStored{0})), 0);
    const auto effects = Step(batch, CompletionStored{1});
    EXPECT_EQ(Only<AnnounceOutcome>(effects).outcome, GlobalTxnState::kHeuristic);
  }
}

TEST(BatchTest, WhatAnOperatorDeclaredCommittedIsToldOnlyOnceItIsDurable) {
  Batch batch = Decided();
  Step(batch, ParticipantEnded{0, ParticipantOutcome::kCommitted});
  const ParticipantEnded declared{1, ParticipantOutcome::kCommitted, true};
  EXPECT_EQ(Count<AnnounceOutcome>(Step(batch, declared)), 0);
  EXPECT_EQ(Count<AnnounceOutcome>(Step(batch, CompletionStored{0})), 0);
  const auto effects = Step(batch, CompletionStored{1});
  EXPECT_EQ(Only<AnnounceOutcome>(effects).outcome, GlobalTxnState::kCommitted);
}

TEST(BatchTest, ReadOnlyParticipantsAreNotEndedAndNotInTheDecision) {
  Batch batch = NewBatch(BatchId(1), {{ClusterName("a")}, {ClusterName("b")}, {ClusterName("c")}});
  Step(batch, Arrives(0, Yes("a")));
  Step(batch, Arrives(1, ReadOnly()));
  Step(batch, Arrives(2, Yes("c")));
  const Decision decision = DecisionOf(batch, {GlobalTxnId("t")}, WallTime{9});
  ASSERT_EQ(decision.participants.size(), 2u);
  EXPECT_EQ(decision.participants[1].prepared.name.cluster, ClusterName("c"));
  EXPECT_EQ(IndexInDecision(batch, 0), 0u);
  EXPECT_EQ(IndexInDecision(batch, 2), 1u);
  const auto effects = Step(batch, DecisionStored{});
  EXPECT_EQ(Count<EndParticipant>(effects), 2);
  EXPECT_EQ(Only<ReleaseParticipant>(effects).participant, 1u);
}

TEST(BatchTest, NothingWrittenAnywhereIsStillADecision) {
  Batch batch = NewBatch(BatchId(1), {});
  EXPECT_EQ(batch.phase, BatchPhase::kDeciding);
  const auto effects = Step(batch, DecisionStored{});
  EXPECT_EQ(Only<AnnounceOutcome>(effects).outcome, GlobalTxnState::kCommitted);
  EXPECT_EQ(batch.phase, BatchPhase::kDone);
}

TEST(BatchTest, RecoveryEndsWhatIsPendingAndKeepsWhatIsKnown) {
  Decision decision{.batch = BatchId(4), .members = {GlobalTxnId("t")}};
  decision.participants.push_back({Prepared("a"), ParticipantOutcome::kAborted});
  decision.participants.push_back({Prepared("b"), ParticipantOutcome::kPending});
  Batch batch = RecoveredBatch(decision);
  const auto effects = Step(batch, DecisionStored{});
  EXPECT_EQ(Only<EndParticipant>(effects).participant, 1u);
  // What is told of the first is durable, and a later look would find the second again.
  const auto last = Step(batch, ParticipantEnded{1, ParticipantOutcome::kCommitted});
  EXPECT_EQ(Only<AnnounceOutcome>(last).outcome, GlobalTxnState::kHeuristic);
  Step(batch, CompletionStored{1});
  EXPECT_EQ(batch.phase, BatchPhase::kDone);
}

TEST(BatchTest, TheTransitionTable) {
  using P = BatchPhase;
  const std::vector<P> all = {P::kPreparing, P::kDeciding, P::kCommitting, P::kAborting, P::kDone};
  const std::vector<std::pair<P, P>> valid = {{P::kPreparing, P::kDeciding},
                                              {P::kPreparing, P::kAborting},
                                              {P::kDeciding, P::kCommitting},
                                              {P::kCommitting, P::kDone},
                                              {P::kAborting, P::kDone}};
  for (const P from : all) {
    for (const P to : all) {
      const bool expected =
          std::find(valid.begin(), valid.end(), std::pair(from, to)) != valid.end();
      EXPECT_EQ(IsValidTransition(from, to), expected) << Name(from) << " -> " << Name(to);
    }
  }
}

using BatchDeathTest = testing::Test;

TEST(BatchDeathTest, EventsThatOnlyADefectCanSendStopTheProcess) {
  EXPECT_DEATH(
      {
        Batch batch = TwoClusters();
        Step(batch, DecisionStored{});
      },
      "");
  EXPECT_DEATH(
      {
        Batch batch = Decided();
        Step(batch, CompletionStored{0});
      },
      "");
  EXPECT_DEATH(
      {
        Batch batch = TwoClusters();
        Step(batch, ParticipantEnded{0, ParticipantOutcome::kCommitted});
      },
      "");
}

// ---- Enlisted participants ----------------------------------------------------------------------

Batch WithEnlisted() {
  return NewBatch(BatchId(1), {{ClusterName("a")}, {ClusterName("b"), true}});
}

Vote EnlistedYes(const std::string& cluster, EndTxnProtocol protocol) {
  Vote vote = Yes(cluster);
  vote.prepared.enlisted = true;
  vote.prepared.name.protocol = protocol;
  return vote;
}

Batch DecidedWithEnlisted(EndTxnProtocol protocol) {
  Batch batch = WithEnlisted();
  Step(batch, Arrives(0, Yes("a")));
  Step(batch, Arrives(1, EnlistedYes("b", protocol)));
  Step(batch, DecisionStored{});
  return batch;
}

TEST(EnlistedBatchTest, AbortedIsToldOnceItsAbortIsKnown) {
  Batch batch = WithEnlisted();
  Step(batch, Arrives(1, EnlistedYes("b", EndTxnProtocol::kTv1)));
  EXPECT_EQ(Count<AnnounceOutcome>(Step(batch, Arrives(0, No("a")))), 0);
  // The lane's end is nobody's business but ours.
  EXPECT_EQ(
      Count<AnnounceOutcome>(
          Step(batch, ParticipantEnded{.participant = 0, .outcome = ParticipantOutcome::kAborted})),
      0);
  const auto effects = Step(batch, ParticipantEnded{.participant = 1,
                                                    .outcome = ParticipantOutcome::kAborted,
                                                    .reinit_required = true});
  EXPECT_EQ(Only<AnnounceOutcome>(effects).outcome, GlobalTxnState::kAborted);
  EXPECT_EQ(Count<ReleaseParticipant>(effects), 1);
  EXPECT_TRUE(batch.participants[1].reinit_required);
  EXPECT_EQ(batch.phase, BatchPhase::kDone);
}

TEST(EnlistedBatchTest, AReadOnlyVoteLeavesNothingToWaitFor) {
  Batch batch = WithEnlisted();
  Step(batch, Arrives(1, ReadOnly()));
  EXPECT_EQ(Count<AnnounceOutcome>(Step(batch, Arrives(0, No("a")))), 1);
}

TEST(EnlistedBatchTest, UnderTv1CommittedIsToldOnceItIsDurable) {
  Batch batch = DecidedWithEnlisted(EndTxnProtocol::kTv1);
  Step(batch, ParticipantEnded{0, ParticipantOutcome::kCommitted});
  const auto ended = Step(batch, ParticipantEnded{1, ParticipantOutcome::kCommitted});
  EXPECT_TRUE(Only<StoreCompletion>(ended).urgent);
  EXPECT_EQ(Count<AnnounceOutcome>(ended), 0);
  const auto stored = Step(batch, CompletionStored{1});
  EXPECT_EQ(Only<AnnounceOutcome>(stored).outcome, GlobalTxnState::kCommitted);
}

TEST(EnlistedBatchTest, ALaneDoesNotHoldThatAnswerBack) {
  Batch batch = DecidedWithEnlisted(EndTxnProtocol::kTv1);
  Step(batch, ParticipantEnded{1, ParticipantOutcome::kCommitted});
  Step(batch, CompletionStored{1});
  const auto ended = Step(batch, ParticipantEnded{0, ParticipantOutcome::kCommitted});
  EXPECT_FALSE(Only<StoreCompletion>(ended).urgent);
  EXPECT_EQ(Count<AnnounceOutcome>(ended), 1);
}

TEST(EnlistedBatchTest, UnderTv2CommittedIsToldAtOnceAndTheIdWaits) {
  Batch batch = DecidedWithEnlisted(EndTxnProtocol::kTv2);
  Step(batch, ParticipantEnded{0, ParticipantOutcome::kCommitted});
  const auto ended = Step(batch, ParticipantEnded{1, ParticipantOutcome::kCommitted});
  EXPECT_EQ(Only<AnnounceOutcome>(ended).outcome, GlobalTxnState::kCommitted);
  EXPECT_EQ(Count<ReleaseParticipant>(ended), 0);
  EXPECT_EQ(Count<ReleaseParticipant>(Step(batch, CompletionStored{1})), 1);
}

TEST(EnlistedBatchTest, IsStillEnlistedAfterACrash) {
  Batch batch = WithEnlisted();
  Step(batch, Arrives(0, Yes("a")));
  Step(batch, Arrives(1, EnlistedYes("b", EndTxnProtocol::kTv1)));
  Batch recovered = RecoveredBatch(DecisionOf(batch, {GlobalTxnId("t")}, WallTime{1}));
  EXPECT_FALSE(recovered.participants[0].enlisted);
  EXPECT_TRUE(recovered.participants[1].enlisted);
}

}  // namespace
}  // namespace lockstep::txn
