// What a broker's answers prove about a decided participant, and the loop that asks.

#include "txn/resolve.h"

#include <gtest/gtest.h>

namespace lockstep::txn {
namespace {

constexpr std::int64_t kStart = 1'700'000'000'000;

ParticipantName Name() {
  return {.cluster = ClusterName("a"),
          .transactional_id = TransactionalId("id"),
          .producer_id = ProducerId(7),
          .producer_epoch = ProducerEpoch(3),
          .start_time_ms = kStart};
}

TxnDescription Shows(KafkaTxnState state, std::int16_t epoch = 3, std::int64_t start = kStart,
                     std::int64_t pid = 7) {
  return {.exists = true,
          .state = state,
          .producer_id = ProducerId(pid),
          .producer_epoch = ProducerEpoch(epoch),
          .start_time_ms = start};
}

Resolution NewResolution(bool check_markers = false) {
  Resolution resolution;
  resolution.participant = {.name = Name(), .evidence = {{{"orders", 1}, 10}}};
  resolution.check_markers = check_markers;
  return resolution;
}

template <typename Effect>
bool Is(const std::vector<ResolveEffect>& effects) {
  return effects.size() == 1 && std::holds_alternative<Effect>(effects[0]);
}

Error Unavailable() { return MakeError(Code::kUnavailable, "no broker", Effect::kUnknown); }

TEST(JudgeTest, OurOwnTransaction) {
  EXPECT_EQ(Judge(Name(), Shows(KafkaTxnState::kOngoing)), Verdict::kOngoing);
  EXPECT_EQ(Judge(Name(), Shows(KafkaTxnState::kPrepareCommit)), Verdict::kCommitted);
  EXPECT_EQ(Judge(Name(), Shows(KafkaTxnState::kCompleteCommit)), Verdict::kCommitted);
  EXPECT_EQ(Judge(Name(), Shows(KafkaTxnState::kPrepareAbort)), Verdict::kAborted);
  EXPECT_EQ(Judge(Name(), Shows(KafkaTxnState::kCompleteAbort)), Verdict::kAborted);
  EXPECT_EQ(Judge(Name(), Shows(KafkaTxnState::kEmpty)), Verdict::kProvesNothing);
}

TEST(JudgeTest, ATimeOutOrFenceAbortsUnderTheNextEpoch) {
  EXPECT_EQ(Judge(Name(), Shows(KafkaTxnState::kPrepareAbort, 4)), Verdict::kAborted);
  EXPECT_EQ(Judge(Name(), Shows(KafkaTxnState::kCompleteAbort, 4)), Verdict::kAborted);
  EXPECT_EQ(Judge(Name(), Shows(KafkaTxnState::kCompleteCommit, 4)), Verdict::kProvesNothing);
  EXPECT_EQ(Judge(Name(), Shows(KafkaTxnState::kOngoing, 4)), Verdict::kProvesNothing);
}

TEST(JudgeTest, AnotherTransactionUnderTheSameIdProvesNothing) {
  for (const auto state :
       {KafkaTxnState::kOngoing, KafkaTxnState::kPrepareCommit, KafkaTxnState::kCompleteCommit,
        KafkaTxnState::kPrepareAbort, KafkaTxnState::kCompleteAbort, KafkaTxnState::kEmpty}) {
    EXPECT_EQ(Judge(Name(), Shows(state, 3, kStart + 1)), Verdict::kProvesNothing) << "start time";
    EXPECT_EQ(Judge(Name(), Shows(state, 3, kStart, 8)), Verdict::kProvesNothing) << "producer id";
    EXPECT_EQ(Judge(Name(), Shows(state, 5)), Verdict::kProvesNothing) << "later epoch";
    EXPECT_EQ(Judge(Name(), Shows(state, 2)), Verdict::kProvesNothing) << "earlier epoch";
  }
  EXPECT_EQ(Judge(Name(), TxnDescription{}), Verdict::kProvesNothing) << "id not found";
}

TEST(JudgeTest, AStateThatWillPassIsAskedAgain) {
  for (const auto state :
       {KafkaTxnState::kDead, KafkaTxnState::kPrepareEpochFence, KafkaTxnState::kUnknown}) {
    EXPECT_EQ(Judge(Name(), Shows(state)), Verdict::kAskAgain);
    EXPECT_EQ(Judge(Name(), Shows(state, 9)), Verdict::kAskAgain);
  }
}

TEST(JudgeMarkersTest, OneMarkerIsEnoughNoneOrBothAreNot) {
  using M = MarkerFound;
  EXPECT_EQ(JudgeMarkers({M::kNone, M::kCommit}), ParticipantOutcome::kCommitted);
  EXPECT_EQ(JudgeMarkers({M::kAbort, M::kNone}), ParticipantOutcome::kAborted);
  EXPECT_EQ(JudgeMarkers({M::kNone, M::kNone}), ParticipantOutcome::kUnknown);
  EXPECT_EQ(JudgeMarkers({}), ParticipantOutcome::kUnknown);
  EXPECT_EQ(JudgeMarkers({M::kCommit, M::kAbort}), ParticipantOutcome::kUnknown);
}

TEST(ResolveTest, OpenIsEndedAndDescribedAgain) {
  Resolution r = NewResolution();
  EXPECT_TRUE(Is<AskDescribe>(StartFromUnknown(r)));
  EXPECT_TRUE(Is<SendEndTxn>(Step(r, Described{Shows(KafkaTxnState::kOngoing)})));
  EXPECT_TRUE(Is<AskDescribe>(Step(r, EndTxnAnswered{{.kind = EndTxnAnswer::Kind::kDone}})));
  EXPECT_TRUE(Is<Conclude>(Step(r, Described{Shows(KafkaTxnState::kPrepareCommit)})));
  EXPECT_EQ(r.outcome, ParticipantOutcome::kCommitted);
}

TEST(ResolveTest, AnErrorFromEndTxnIsNoOutcome) {
  using Kind = EndTxnAnswer::Kind;
  for (const Kind kind : {Kind::kInvalidState, Kind::kFenced, Kind::kUncertain}) {
    Resolution r = NewResolution();
    StartFromUnknown(r);
    Step(r, Described{Shows(KafkaTxnState::kOngoing)});
    EXPECT_TRUE(Is<Wait>(Step(r, EndTxnAnswered{{.kind = kind, .problem = "it failed"}})));
    EXPECT_EQ(r.problem, "it failed");
    EXPECT_TRUE(Is<AskDescribe>(Step(r, WaitOver{})));
    EXPECT_EQ(r.outcome, ParticipantOutcome::kPending);
  }
}

TEST(ResolveTest, AnUnreachableBrokerIsAskedForEverWithBackoff) {
  Resolution r = NewResolution();
  StartFromUnknown(r);
  Duration last{};
  for (int i = 0; i < 30; ++i) {
    const auto effects = Step(r, Described{Unavailable()});
    ASSERT_TRUE(Is<Wait>(effects));
    const Duration wait = std::get<Wait>(effects[0]).duration;
    EXPECT_GE(wait, last);
    EXPECT_LE(wait, std::chrono::seconds(2));
    last = wait;
    ASSERT_TRUE(Is<AskDescribe>(Step(r, WaitOver{})));
  }
  EXPECT_GE(last, std::chrono::seconds(1));
}

TEST(ResolveTest, WhereDescribeProvesNothingTheMarkersTell) {
  const std::vector<std::pair<MarkerFound, ParticipantOutcome>> cases = {
      {MarkerFound::kCommit, ParticipantOutcome::kCommitted},
      {MarkerFound::kAbort, ParticipantOutcome::kAborted},
      {MarkerFound::kNone, ParticipantOutcome::kUnknown}};
  for (const auto& [marker, outcome] : cases) {
    Resolution r = NewResolution();
    StartFromUnknown(r);
    ASSERT_TRUE(Is<ReadMarkers>(Step(r, Described{TxnDescription{}})));
    ASSERT_TRUE(Is<Wait>(Step(r, MarkersRead{Unavailable()})));
    ASSERT_TRUE(Is<ReadMarkers>(Step(r, WaitOver{})));
    ASSERT_TRUE(Is<Conclude>(Step(r, MarkersRead{std::vector{marker}})));
    EXPECT_EQ(r.outcome, outcome);
  }
}

TEST(ResolveTest, MissingMarkersKeepItInDoubtAndAreNamedOnceTheyAreLate) {
  Resolution r = NewResolution(true);
  auto effects = StartFromCommitted(r);
  Duration waited{};
  for (int i = 0; r.hanging.empty(); ++i) {
    ASSERT_LT(i, 100);
    ASSERT_TRUE(Is<CheckMarkers>(effects));
    effects = Step(r, MarkersChecked{std::vector<TopicPartition>{{"orders", 1}}});
    ASSERT_TRUE(Is<Wait>(effects));
    waited += std::get<Wait>(effects[0]).duration;
    effects = Step(r, WaitOver{});
  }
  EXPECT_GT(waited, std::chrono::milliseconds(50)) << "markers of a healthy broker come later";
  EXPECT_LT(waited, std::chrono::milliseconds(500));
  EXPECT_EQ(r.outcome, ParticipantOutcome::kPending);
  EXPECT_NE(r.problem.find("orders-1"), std::string::npos);
  ASSERT_TRUE(Is<Conclude>(Step(r, MarkersChecked{std::vector<TopicPartition>{}})));
  EXPECT_EQ(r.outcome, ParticipantOutcome::kCommitted);
  EXPECT_TRUE(r.hanging.empty());
  EXPECT_TRUE(r.problem.empty());
}

TEST(ResolveTest, WithoutThatHazardTheLanesOwnAnswerIsEnough) {
  Resolution r = NewResolution();
  EXPECT_TRUE(Is<Conclude>(StartFromCommitted(r)));
  EXPECT_EQ(r.outcome, ParticipantOutcome::kCommitted);
}

TEST(ResolveTest, MarkersAreCheckedUntilTheBrokersAreKnown) {
  Resolution r;
  ASSERT_TRUE(Is<CheckMarkers>(StartFromCommitted(r)));
  r.check_markers = false;
  EXPECT_TRUE(Is<Conclude>(Step(r, MarkersChecked{Unavailable()})));
  EXPECT_EQ(r.outcome, ParticipantOutcome::kCommitted);
}

TEST(ResolveTest, AnAbortedParticipantIsSaidAloud) {
  Resolution r = NewResolution();
  StartFromUnknown(r);
  Step(r, Described{Shows(KafkaTxnState::kCompleteAbort, 4)});
  EXPECT_EQ(r.outcome, ParticipantOutcome::kAborted);
  EXPECT_NE(r.problem.find("CompleteAbort"), std::string::npos);
}

// ---- An operator's word -------------------------------------------------------------------------

OrderGiven Order(OrderKind kind) {
  return OrderGiven{OperatorOrder{kind, true, "ann", "the disk burnt", WallTime{5}}};
}

Direction DirectionOf(const std::vector<ResolveEffect>& effects) {
  return std::get<SendEndTxn>(effects.at(0)).direction;
}

TEST(OrderTest, CommitEndsTheWaitAndAsksAgain) {
  Resolution r = NewResolution();
  StartFromUnknown(r);
  ASSERT_TRUE(Is<Wait>(Step(r, Described{Unavailable()})));
  ASSERT_TRUE(Is<AskDescribe>(Step(r, Order(OrderKind::kCommit))));
  EXPECT_EQ(DirectionOf(Step(r, Described{Shows(KafkaTxnState::kOngoing)})), Direction::kCommit);
}

TEST(OrderTest, AbortIsSentOnlyToWhatIsOpenUnderOurName) {
  Resolution r = NewResolution();
  StartFromUnknown(r);
  Step(r, Described{Unavailable()});
  ASSERT_TRUE(Is<AskDescribe>(Step(r, Order(OrderKind::kAbort))));
  EXPECT_EQ(DirectionOf(Step(r, Described{Shows(KafkaTxnState::kOngoing)})), Direction::kAbort);
  Step(r, EndTxnAnswered{{.kind = EndTxnAnswer::Kind::kDone}});
  ASSERT_TRUE(Is<Conclude>(Step(r, Described{Shows(KafkaTxnState::kCompleteAbort)})));
  EXPECT_EQ(r.outcome, ParticipantOutcome::kAborted);
  EXPECT_NE(r.problem.find("ann"), std::string::npos) << r.problem;
}

TEST(OrderTest, AbortComesTooLateForWhatTheBrokerCommitted) {
  Resolution r = NewResolution();
  StartFromUnknown(r);
  EXPECT_TRUE(Step(r, Order(OrderKind::kAbort)).empty())
      << "an answer is on its way: it comes first";
  ASSERT_TRUE(Is<Conclude>(Step(r, Described{Shows(KafkaTxnState::kCompleteCommit)})));
  EXPECT_EQ(r.outcome, ParticipantOutcome::kCommitted);
}

TEST(OrderTest, NothingIsSentBesideAnEndTxnThatIsNotAnswered) {
  Resolution r = NewResolution();
  StartFromUnknown(r);
  EXPECT_EQ(DirectionOf(Step(r, Described{Shows(KafkaTxnState::kOngoing)})), Direction::kCommit);
  EXPECT_TRUE(Step(r, Order(OrderKind::kAbort)).empty());
  ASSERT_TRUE(Is<AskDescribe>(Step(r, EndTxnAnswered{{.kind = EndTxnAnswer::Kind::kDone}})));
  EXPECT_EQ(DirectionOf(Step(r, Described{Shows(KafkaTxnState::kOngoing)})), Direction::kAbort);
}

TEST(OrderTest, CommitTakesAbortBack) {
  Resolution r = NewResolution();
  StartFromUnknown(r);
  Step(r, Order(OrderKind::kAbort));
  Step(r, Order(OrderKind::kCommit));
  EXPECT_EQ(DirectionOf(Step(r, Described{Shows(KafkaTxnState::kOngoing)})), Direction::kCommit);
}

TEST(OrderTest, ADeclarationEndsTheWait) {
  const std::vector<std::pair<OrderKind, ParticipantOutcome>> cases = {
      {OrderKind::kDeclareCommitted, ParticipantOutcome::kCommitted},
      {OrderKind::kDeclareAborted, ParticipantOutcome::kAborted},
      {OrderKind::kDeclareUnknown, ParticipantOutcome::kUnknown}};
  for (const auto& [kind, outcome] : cases) {
    Resolution waiting = NewResolution();
    StartFromUnknown(waiting);
    Step(waiting, Described{Unavailable()});
    ASSERT_TRUE(Is<Conclude>(Step(waiting, Order(kind))));
    EXPECT_EQ(waiting.outcome, outcome);
    EXPECT_TRUE(waiting.declared);
    EXPECT_NE(waiting.problem.find("ann"), std::string::npos) << waiting.problem;
    EXPECT_TRUE(Step(waiting, Order(kind)).empty()) << "it is concluded";

    Resolution asking = NewResolution();
    StartFromUnknown(asking);
    ASSERT_TRUE(Step(asking, Order(kind)).empty());
    EXPECT_EQ(asking.outcome, ParticipantOutcome::kPending);
    ASSERT_TRUE(Is<Conclude>(Step(asking, Described{Unavailable()})));
    EXPECT_EQ(asking.outcome, outcome);
  }
}

TEST(OrderTest, WhatABrokerProvesWinsOverADeclaration) {
  Resolution r = NewResolution();
  StartFromUnknown(r);
  Step(r, Order(OrderKind::kDeclareAborted));
  ASSERT_TRUE(Is<Conclude>(Step(r, Described{Shows(KafkaTxnState::kCompleteCommit)})));
  EXPECT_EQ(r.outcome, ParticipantOutcome::kCommitted);
  EXPECT_FALSE(r.declared);
}

TEST(OrderTest, ABrokerThatAnswersMakesADeclarationTrue) {
  for (const auto& [kind, direction] : {std::pair{OrderKind::kDeclareCommitted, Direction::kCommit},
                                        std::pair{OrderKind::kDeclareAborted, Direction::kAbort}}) {
    Resolution r = NewResolution();
    StartFromUnknown(r);
    Step(r, Order(kind));
    EXPECT_EQ(DirectionOf(Step(r, Described{Shows(KafkaTxnState::kOngoing)})), direction);
  }
}

TEST(OrderTest, WithOnlyMarkersMissingItIsCommittedWhateverIsDeclared) {
  Resolution r = NewResolution(true);
  StartFromCommitted(r);
  Step(r, MarkersChecked{Unavailable()});
  ASSERT_TRUE(Is<Conclude>(Step(r, Order(OrderKind::kDeclareUnknown))));
  EXPECT_EQ(r.outcome, ParticipantOutcome::kCommitted);
}

TEST(OrderTest, AnOrderOfAnEarlierLifeIsObeyed) {
  Resolution r = NewResolution();
  r.order = Order(OrderKind::kAbort).order;
  StartFromUnknown(r);
  EXPECT_EQ(DirectionOf(Step(r, Described{Shows(KafkaTxnState::kOngoing)})), Direction::kAbort);
}

// ---- TV2: EndTxn bumps the epoch, and is asked itself -------------------------------------------

using Kind = EndTxnAnswer::Kind;

ParticipantName Tv2Name() {
  ParticipantName name = Name();
  name.protocol = EndTxnProtocol::kTv2;
  return name;
}

Resolution NewTv2Resolution() {
  Resolution resolution = NewResolution();
  resolution.participant.name = Tv2Name();
  return resolution;
}

TEST(JudgeTv2Test, ItsOwnEndHasTheNextEpoch) {
  for (const std::int16_t epoch : {3, 4}) {
    EXPECT_EQ(Judge(Tv2Name(), Shows(KafkaTxnState::kPrepareCommit, epoch)), Verdict::kCommitted);
    EXPECT_EQ(Judge(Tv2Name(), Shows(KafkaTxnState::kCompleteCommit, epoch)), Verdict::kCommitted);
    EXPECT_EQ(Judge(Tv2Name(), Shows(KafkaTxnState::kCompleteAbort, epoch)), Verdict::kAborted);
  }
}

TEST(JudgeTv2Test, WhatHasAnotherNameIsAskedForByEndTxn) {
  // The producer id ended with its last epoch: the broker goes on with another one.
  const TxnDescription committed = Shows(KafkaTxnState::kCompleteCommit, 0, -1, 8);
  EXPECT_EQ(Judge(Tv2Name(), committed), Verdict::kAskByEndTxn);
  EXPECT_EQ(Judge(Tv2Name(), committed, Kind::kUncertain), Verdict::kAskByEndTxn);
  EXPECT_EQ(Judge(Tv2Name(), committed, Kind::kInvalidState), Verdict::kProvesNothing);
  EXPECT_EQ(Judge(Tv2Name(), committed, Kind::kFenced), Verdict::kProvesNothing);

  const TxnDescription aborted = Shows(KafkaTxnState::kCompleteAbort, 0, -1, 8);
  EXPECT_EQ(Judge(Tv2Name(), aborted), Verdict::kAskByEndTxn);
  EXPECT_EQ(Judge(Tv2Name(), aborted, Kind::kInvalidState), Verdict::kAborted) << "M15";
  EXPECT_EQ(Judge(Tv2Name(), aborted, Kind::kFenced), Verdict::kProvesNothing);
}

TEST(JudgeTv2Test, WhatIsOpenIsNeverAskedByAnEndTxnThatWouldEndIt) {
  EXPECT_EQ(Judge(Tv2Name(), Shows(KafkaTxnState::kOngoing, 3, kStart + 1)),
            Verdict::kProvesNothing);
  EXPECT_EQ(Judge(Tv2Name(), Shows(KafkaTxnState::kOngoing, 4)), Verdict::kProvesNothing);
  EXPECT_EQ(Judge(Tv2Name(), Shows(KafkaTxnState::kEmpty)), Verdict::kProvesNothing);
}

TEST(ResolveTv2Test, NoneForCommitIsTheBrokersWord) {
  Resolution r = NewTv2Resolution();
  StartFromUnknown(r);
  EXPECT_TRUE(Is<SendEndTxn>(Step(r, Described{Shows(KafkaTxnState::kOngoing)})));
  EXPECT_TRUE(Is<Conclude>(Step(r, EndTxnAnswered{{.kind = Kind::kDone}})));
  EXPECT_EQ(r.outcome, ParticipantOutcome::kCommitted);
}

TEST(ResolveTv2Test, ARollOverIsSeenThrough) {
  Resolution r = NewTv2Resolution();
  StartFromUnknown(r);
  const Described shown{Shows(KafkaTxnState::kCompleteAbort, 0, -1, 8)};
  EXPECT_TRUE(Is<SendEndTxn>(Step(r, shown)));
  EXPECT_TRUE(Is<Wait>(Step(r, EndTxnAnswered{{.kind = Kind::kUncertain}})));
  EXPECT_TRUE(Is<AskDescribe>(Step(r, WaitOver{})));
  EXPECT_TRUE(Is<SendEndTxn>(Step(r, shown)));
  Step(r, EndTxnAnswered{{.kind = Kind::kInvalidState}});
  Step(r, WaitOver{});
  EXPECT_TRUE(Is<Conclude>(Step(r, shown)));
  EXPECT_EQ(r.outcome, ParticipantOutcome::kAborted);
}

TEST(ResolveTv2Test, AnOrderedAbortIsSentOnlyToWhatIsOpen) {
  Resolution r = NewTv2Resolution();
  r.order = OperatorOrder{.kind = OrderKind::kAbort};
  StartFromUnknown(r);
  const auto asked = Step(r, Described{Shows(KafkaTxnState::kCompleteCommit, 0, -1, 8)});
  ASSERT_TRUE(Is<SendEndTxn>(asked));
  EXPECT_EQ(std::get<SendEndTxn>(asked[0]).direction, Direction::kCommit);
  Step(r, EndTxnAnswered{{.kind = Kind::kUncertain}});
  Step(r, WaitOver{});
  const auto ended = Step(r, Described{Shows(KafkaTxnState::kOngoing)});
  ASSERT_TRUE(Is<SendEndTxn>(ended));
  EXPECT_EQ(std::get<SendEndTxn>(ended[0]).direction, Direction::kAbort);
  EXPECT_TRUE(Is<AskDescribe>(Step(r, EndTxnAnswered{{.kind = Kind::kDone}})));
}

}  // namespace
}  // namespace lockstep::txn
