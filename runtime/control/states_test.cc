// Which state of a rank, of the job and of a stop follows which event.
#include "runtime/control/states.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace nabla::control {
namespace {

using Said = RankState::Said;
using Process = RankState::Process;

template <class State, class Event>
State after_all(State state, std::initializer_list<Event> events) {
  for (Event e : events) state = after(state, e);
  return state;
}

TEST(RankStates, ARankThatSaysGoodbyeIsNotMissedWhenItsConnectionCloses) {
  const RankState left = after_all(RankState(), {RankEvent::kHello, RankEvent::kGoodbye, RankEvent::kClosed});
  EXPECT_EQ(left, (RankState{Said::kGoodbye, Process::kRuns}));
  EXPECT_TRUE(left.has_left() && !left.is_gone());
}

TEST(RankStates, AReportExplainsTheEndThatFollows) {
  const RankState lost = after_all(RankState(), {RankEvent::kHello, RankEvent::kClosed});
  EXPECT_TRUE(lost.is_gone() && lost.is_missed());
  const RankState failed = after_all(RankState(), {RankEvent::kHello, RankEvent::kReport, RankEvent::kClosed});
  EXPECT_TRUE(failed.is_gone() && !failed.is_missed());
  EXPECT_FALSE(after_all(failed, {RankEvent::kObituary}).is_missed());
}

TEST(RankStates, AProcessThatEndsBeforeItJoinsIsNotWaitedFor) {
  EXPECT_FALSE(RankState().has_joined());
  const RankState ended = after(RankState(), RankEvent::kObituary);
  EXPECT_TRUE(ended.has_joined() && ended.is_gone() && ended.is_missed());
}

TEST(RankStates, NothingIsTakenBack) {
  const RankState ended = after_all(RankState(), {RankEvent::kHello, RankEvent::kGoodbye, RankEvent::kObituary});
  for (RankEvent e : {RankEvent::kHello, RankEvent::kReport, RankEvent::kGoodbye, RankEvent::kClosed, RankEvent::kObituary})
    EXPECT_EQ(after(ended, e), ended);
}

TEST(JobStates, ACauseBeforeAllHaveJoinedKeepsTheJobFromStarting) {
  const JobState refused = after_all(JobState::kJoining, {JobEvent::kCause, JobEvent::kAllJoined});
  EXPECT_EQ(refused, JobState::kRefused);
  EXPECT_FALSE(has_started(refused));
  EXPECT_EQ(after_all(JobState::kJoining, {JobEvent::kAllJoined, JobEvent::kCause}), JobState::kFailed);
}

TEST(JobStates, AJobThatIsOverStaysSo) {
  for (JobState s : {JobState::kJoining, JobState::kRunning, JobState::kRefused, JobState::kFailed})
    EXPECT_EQ(after_all(s, {JobEvent::kAllGone, JobEvent::kAllJoined, JobEvent::kCause}), JobState::kOver);
}

TEST(StopStates, ARefusalLeadsToAnotherProposalAndAnAgreementIsForGood) {
  const StopState refused = after_all(StopState::kNotAsked, {StopEvent::kAsk, StopEvent::kPropose, StopEvent::kRefuse});
  EXPECT_EQ(refused, StopState::kAsked);
  const StopState agreed = after_all(refused, {StopEvent::kPropose, StopEvent::kAgree});
  EXPECT_EQ(agreed, StopState::kAgreed);
  EXPECT_EQ(after_all(agreed, {StopEvent::kAsk, StopEvent::kPropose, StopEvent::kRefuse}), StopState::kAgreed);
  EXPECT_EQ(after(agreed, StopEvent::kLeave), StopState::kStopped);
}

TEST(StopStates, NobodyProposesUnasked) {
  EXPECT_EQ(after_all(StopState::kNotAsked, {StopEvent::kPropose, StopEvent::kAgree}), StopState::kNotAsked);
}

}  // namespace
}  // namespace nabla::control
