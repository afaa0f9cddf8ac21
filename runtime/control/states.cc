#include "runtime/control/states.h"

namespace nabla::control {

RankState after(RankState state, RankEvent event) {
  using Said = RankState::Said;
  using Process = RankState::Process;
  switch (event) {
    case RankEvent::kHello:
      if (state.said == Said::kNothing) state.said = Said::kHello;
      break;
    case RankEvent::kReport:
      if (state.said != Said::kGoodbye) state.said = Said::kFailure;
      break;
    case RankEvent::kGoodbye:
      state.said = Said::kGoodbye;
      break;
    case RankEvent::kClosed:  // which is no surprise after a goodbye
      if (state.said != Said::kGoodbye && state.process == Process::kRuns) state.process = Process::kLost;
      break;
    case RankEvent::kObituary:
      state.process = Process::kEnded;
      break;
  }
  return state;
}

JobState after(JobState state, JobEvent event) {
  switch (event) {
    case JobEvent::kAllJoined:
      return state == JobState::kJoining ? JobState::kRunning : state;
    case JobEvent::kCause:
      return state == JobState::kJoining ? JobState::kRefused : state == JobState::kRunning ? JobState::kFailed : state;
    case JobEvent::kAllGone:
      return JobState::kOver;
  }
  return state;
}

StopState after(StopState state, StopEvent event) {
  switch (event) {
    case StopEvent::kAsk:
      return state == StopState::kNotAsked ? StopState::kAsked : state;
    case StopEvent::kPropose:
      return state == StopState::kAsked ? StopState::kProposed : state;
    case StopEvent::kRefuse:
      return state == StopState::kProposed ? StopState::kAsked : state;
    case StopEvent::kAgree:
      return state == StopState::kProposed ? StopState::kAgreed : state;
    case StopEvent::kLeave:
      return StopState::kStopped;
  }
  return state;
}

}  // namespace nabla::control
