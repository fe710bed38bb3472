#include "catchers.h"

#include <algorithm>
#include <cstdlib>

namespace lockstep::planted {
namespace {

using enum PlantedBug;
using enum Layer;

constexpr std::string_view kCore = "unit/core/core_test";
constexpr std::string_view kApi = "unit/server/server_api_test";
constexpr std::string_view kLane = "unit/kafka/kafka_test";
constexpr std::string_view kLog = "unit/log/log_test";
constexpr std::string_view kLogCrashes = "unit/log/log_crash_test";
constexpr std::string_view kLogDamage = "unit/log/log_damage_test";

}  // namespace

const std::vector<Catcher>& AllCatchers() {
  static const std::vector<Catcher> all = {
      {kAnswerBeforeWrite, kSimulation, "long"},
      {kAnswerBeforeWrite, kModel, "SYNC_FIRST"},
      {kCommitWithoutAllVotes, kSimulation, "long"},
      {kCommitWithoutAllVotes, kUnit, kCore, "BatchTest.OneNoAbortsAllAndIsTheReason"},
      {kCommitWithoutAllVotes, kModel, "ALL_VOTES"},
      {kCommitWithoutAllVotes, kTorture, "reset,lose answers"},
      {kDecidePastDeadline, kSimulation, "long"},
      {kDecidePastDeadline, kUnit, kCore, "BatchTest.DoesNotDecideNearKafkasDeadline"},
      {kAbortBeatsDecision, kSimulation, "long"},
      {kAbortBeatsDecision, kModel, "CAS"},
      {kLaneReusedEarly, kSimulation, "long"},
      {kLaneReusedEarly, kModel, "CLEAN_A"},
      {kEnlistedToldEarly, kUnit, kCore,
       "EnlistedBatchTest.UnderTv1CommittedIsToldOnceItIsDurable"},
      {kEnlistedToldEarly, kModel, "M11"},
      {kAbortToldEarly, kUnit, kCore, "EnlistedBatchTest.AbortedIsToldOnceItsAbortIsKnown"},
      {kAbortToldEarly, kModel, "M13_ANSWER"},
      {kFencedIsSuccess, kUnit, kCore, "ResolveTest.AnErrorFromEndTxnIsNoOutcome"},
      {kFencedIsSuccess, kModel, "ERROR_IS_NO_OUTCOME"},
      {kHeuristicHidden, kSimulation, "long"},
      {kMissingMarkerIsAbort, kUnit, kCore, "JudgeMarkersTest.OneMarkerIsEnoughNoneOrBothAreNot"},
      {kMissingMarkerIsAbort, kSimulation, "short"},
      {kMarkersUnchecked, kSimulation, "long"},
      {kExpiredIsAborted, kSimulation, "long"},
      {kKeyForgotten, kSimulation, "long"},
      {kBatchMatesToldAborted, kSimulation, "crowd"},
      {kRepeatedWorkApplied, kSimulation, "long"},
      {kSequenceGapAccepted, kUnit, kApi, "ApiTest.ARepeatedSequenceIsAppliedOnceAndAGapIsRefused"},
      {kOffsetsAstray, kSimulation, "long"},
      {kClusterIdIgnored, kUnit, kApi, "ApiTest.OffsetsReachTheirClusterAndNoOther"},
      {kEpochUnchecked, kUnit, kCore, "VoteCheckTest.AnotherProducerOrEpochIsNo"},
      {kEpochUnchecked, kModel, "VOTE_EPOCH"},
      {kReinitNotEnforced, kUnit, kApi,
       "EnlistTest.AfterAnEndWithoutAnAnswerTheProducerMustBeRenewed"},
      {kReinitNotEnforced, kModel, "REINIT"},
      {kEnlistWhileUnfinished, kUnit, kApi,
       "EnlistTest.AClusterHasOneBranchAndAProducerOneTransaction"},
      {kEnlistWhileUnfinished, kModel, "M10"},
      {kRegisterAtOnce, kSimulation, "long"},
      {kRegisterAtOnce, kModel, "M21_WAITS"},

      {kSkipSync, kUnit, kLogCrashes, "LogCrashes.WhatWasAnsweredIsThereAndNothingElse"},
      {kLogAcksBeforeSync, kSimulation, "long"},
      {kLogAcksBeforeSync, kUnit, kLogCrashes, "LogCrashes.WhatWasAnsweredIsThereAndNothingElse"},
      {kLogAcksBeforeSync, kModel, "ANSWER_SYNCED"},
      {kWritesAfterFailure, kUnit, kLog, "*FailedWriteTest.FailsTheLogForEver*"},
      {kForgetsPending, kSimulation, "long"},
      {kForgetsPending, kUnit, kLog, "ForgetTest.WhatIsOpenIsNeverForgotten"},
      {kForgetsPending, kModel, "FORGET_LAST"},
      {kHorizonBelowKeys, kSimulation, "long"},
      {kHorizonBelowKeys, kUnit, kLog,
       "ForgetTest.AKeyIsFoundUntilItIsForgottenAndThenBelowTheHorizon"},
      {kDamageUnseen, kUnit, kLogDamage, "DamageTest.AHeaderInTheWriteAheadLog"},
      {kKeysNotRecovered, kSimulation, "long"},

      {kUncleanLaneReused, kSimulation, "long"},
      {kUncleanLaneReused, kUnit, kLane, "CleanTest.*"},
      {kUncleanLaneReused, kModel, "CLEAN_B"},
      {kUncleanLaneReused, kTorture, "hold ends,double ends"},
      {kVoteWhileUnanswered, kSimulation, "long"},
      {kVoteWhileUnanswered, kModel, "VOTE_CLEAN"},
      {kInitBeforeResolve, kSimulation, "long"},
      {kInitBeforeResolve, kModel, "RECOVER_FIRST"},
      {kInitBeforeResolve, kTorture, "recover without ends"},
      {kFenceForgotten, kSimulation, "long"},
      {kEndVersionsMixed, kSimulation, "long"},
      {kEndVersionsMixed, kModel, "ONE_VERSION"},
      {kErrorIsOutcome, kSimulation, "long"},
      {kInitReusesId, kSimulation, "long"},
      {kInitReusesId, kModel, "INIT_RETIRES"},
      {kAbortedIdReused, kSimulation, "long"},
      {kVoteUnchecked, kSimulation, "long"},
      {kVoteUnflushed, kSimulation, "long"},
      {kMemberLeftOut, kSimulation, "long"},
      {kPieceLeftOut, kSimulation, "long"},
      {kSpoiledNotAborted, kSimulation, "long"},
      {kMarkersUncheckedAtFirst, kSimulation, "long"},
      {kDeadlineTooLate, kSimulation, "long"},

      {kEndsUnanswered, kSimulation, "long"},
      {kEndsUnanswered, kModel, "M16_WAITS"},
      {kUncertainEndIgnored, kSimulation, "long"},
      {kUncertainEndIgnored, kModel, "M16_RECREATES"},
      {kProducerKept, kSimulation, "long"},
      {kProducerKept, kModel, "M16_INCARNATION"},

      {kLengthOneTooFar, kFuzzing, "wire"},
      {kOverlapUnseen, kFuzzing, "records"},
      {kOverlapUnseen, kUnit, "unit/wire/wire_protocol_test",
       "Records.BatchesThatOverlapAreCorrupt"},
      {kCompletionOfNobody, kFuzzing, "log"},
      {kMissingDecisionUnseen, kFuzzing, "recovery"},
      {kMistakesOverlooked, kFuzzing, "config"},
      {kDurationUnbounded, kFuzzing, "requests"},
  };
  return all;
}

const PlantedBugInfo& InfoOf(PlantedBug bug) {
  const auto found = std::ranges::find(AllPlantedBugs(), bug, &PlantedBugInfo::bug);
  if (found == AllPlantedBugs().end()) std::abort();
  return *found;
}

std::string TestName(const Catcher& catcher) {
  std::string name = std::string(InfoOf(catcher.bug).name) + "_" + std::string(Name(catcher.layer));
  std::erase(name, '-');
  std::erase(name, ' ');
  return name;
}

}  // namespace lockstep::planted
