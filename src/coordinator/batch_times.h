#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "coordinator/ports.h"
#include "coordinator/stats.h"

namespace lockstep::coordinator {

/// Measures where the time of one batch goes, into Stats. Lives with its BatchRunner, on the
/// executor. What did not happen in this process is not measured: of a decision that recovery takes
/// up, nothing is.
class BatchTimes {
 public:
  BatchTimes(Stats& stats, const Clock& clock) : stats_(stats), clock_(clock) {}

  void AddParticipant(const ClusterName& cluster) {
    participants_.push_back({.times = &stats_.clusters[cluster]});
  }

  void Begun() { begun_ = clock_.Now(); }
  void Asked(std::size_t i) { participants_[i].asked = clock_.Now(); }
  void Voted(std::size_t i) { Add(participants_[i].times->prepare, participants_[i].asked); }
  void VotesIn() { votes_in_ = Add(stats_.prepare, begun_); }
  void DecisionDurable() { durable_ = Add(stats_.log, votes_in_); }
  void EndSent(std::size_t i) { participants_[i].end_sent = clock_.Now(); }
  void EndAnswered(std::size_t i) {
    participants_[i].answered = Add(participants_[i].times->end, participants_[i].end_sent);
  }
  /// It is known to be committed.
  void Committed(std::size_t i) {
    const std::optional<MonoTime> now =
        Add(participants_[i].times->markers, participants_[i].answered);
    last_committed_ = now ? *now : clock_.Now();
    if (!first_committed_) first_committed_ = last_committed_;
    ++committed_;
  }
  /// Every participant's end is known.
  void Complete(bool committed_everywhere) {
    if (!Add(stats_.complete, durable_)) return;
    if (committed_everywhere && committed_ > 1)
      stats_.skew.Add(last_committed_ - *first_committed_);
  }

 private:
  struct Participant {
    ParticipantTimes* times = nullptr;
    std::optional<MonoTime> asked;
    std::optional<MonoTime> end_sent;
    std::optional<MonoTime> answered;
  };

  /// Adds the time since `start`, and returns now; nothing if it never started here.
  std::optional<MonoTime> Add(Histogram& histogram, std::optional<MonoTime> start) const {
    if (!start) return std::nullopt;
    const MonoTime now = clock_.Now();
    histogram.Add(now - *start);
    return now;
  }

  Stats& stats_;
  const Clock& clock_;
  std::vector<Participant> participants_;  // As the batch's.
  std::optional<MonoTime> begun_;
  std::optional<MonoTime> votes_in_;
  std::optional<MonoTime> durable_;
  std::optional<MonoTime> first_committed_;
  MonoTime last_committed_{};
  int committed_ = 0;
};

}  // namespace lockstep::coordinator
