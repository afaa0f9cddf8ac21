// Streams, events and graphs of the fake driver.
#include <chrono>

#include "tests/cuda/fake_driver/state.h"

using namespace nabla::fake_cuda;  // NOLINT: this is its library

namespace {

double now() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

extern "C" {

int cuStreamCreate(Stream** out, unsigned) {
  if (int status = begin("cuStreamCreate", kOutOfMemory); status != kOk) return status;
  state().streams.insert(*out = new Stream);
  return kOk;
}
int cuStreamDestroy_v2(Stream* stream) {
  if (state().streams.erase(stream) == 0) return kInvalidHandle;
  drain(*stream);
  delete stream;
  return kOk;
}
int cuStreamSynchronize(Stream* stream) {
  if (int status = begin("cuStreamSynchronize"); status != kOk) return status;
  if (!known(state().streams, stream)) return kInvalidHandle;
  if (int status = forbid_in_capture(); status != kOk) return status;
  return drain(*stream);
}
int cuStreamBeginCapture_v2(Stream* stream, int mode) {
  if (int status = begin("cuStreamBeginCapture"); status != kOk) return status;
  if (!known(state().streams, stream) || mode != 1) return kInvalidValue;
  if (stream->capturing) return kInvalidValue;
  stream->capturing = true;
  return kOk;
}
int cuStreamEndCapture(Stream* stream, Graph** out) {
  if (!known(state().streams, stream) || !stream->capturing) return kInvalidValue;
  std::vector<Work> recorded = std::move(stream->recorded);
  bool broken = stream->broken;
  stream->capturing = stream->broken = false;
  stream->recorded.clear();
  *out = nullptr;
  if (broken) return kCaptureInvalidated;
  if (int status = begin("cuStreamEndCapture"); status != kOk) return status;
  state().graphs.insert(*out = new Graph{std::move(recorded)});
  return kOk;
}

int cuGraphInstantiateWithFlags(Graph** out, Graph* graph, unsigned long long) {
  if (int status = begin("cuGraphInstantiate", kOutOfMemory); status != kOk) return status;
  if (!known(state().graphs, graph)) return kInvalidHandle;
  state().execs.insert(*out = new Graph(*graph));
  return kOk;
}
int cuGraphDestroy(Graph* graph) {
  if (state().graphs.erase(graph) == 0) return kInvalidHandle;
  delete graph;
  return kOk;
}
int cuGraphExecDestroy(Graph* exec) {
  if (state().execs.erase(exec) == 0) return kInvalidHandle;
  delete exec;
  return kOk;
}
int cuGraphUpload(Graph* exec, Stream* stream) {
  if (int status = begin("cuGraphUpload"); status != kOk) return status;
  return known(state().execs, exec) && known(state().streams, stream) ? kOk : kInvalidHandle;
}
int cuGraphLaunch(Graph* exec, Stream* stream) {
  if (int status = begin("cuGraphLaunch"); status != kOk) return status;
  if (!known(state().execs, exec)) return kInvalidHandle;
  for (const Work& work : exec->work)
    if (int status = put(stream, work); status != kOk) return status;
  return kOk;
}

int cuEventCreate(Event** out, unsigned flags) {
  if (int status = begin("cuEventCreate", kOutOfMemory); status != kOk) return status;
  state().events.insert(*out = new Event{.timing = (flags & 2) == 0});
  return kOk;
}
int cuEventDestroy_v2(Event* event) {
  if (state().events.erase(event) == 0) return kInvalidHandle;
  if (event->pending) drain(*event->stream);
  delete event;
  return kOk;
}
int cuEventRecord(Event* event, Stream* stream) {
  if (int status = begin("cuEventRecord"); status != kOk) return status;
  if (!known(state().events, event)) return kInvalidHandle;
  event->pending = true;
  event->stream = stream;
  return put(stream, [event] {
    event->pending = false;
    event->milliseconds = now();
    return kOk;
  });
}
int cuEventSynchronize(Event* event) {
  if (int status = begin("cuEventSynchronize"); status != kOk) return status;
  if (!known(state().events, event)) return kInvalidHandle;
  if (int status = forbid_in_capture(); status != kOk) return status;
  // No further than the event: what stands after it may still be on its way.
  while (event->pending && !event->stream->queue.empty()) {
    Work work = std::move(event->stream->queue.front());
    event->stream->queue.pop_front();
    if (state().sticky == kOk) state().sticky = work();
    if (state().sticky != kOk) return state().sticky;
  }
  return kOk;
}
int cuEventElapsedTime(float* milliseconds, Event* start, Event* end) {
  if (int status = begin("cuEventElapsedTime"); status != kOk) return status;
  if (!known(state().events, start) || !known(state().events, end)) return kInvalidHandle;
  if (!start->timing || !end->timing) return kInvalidHandle;
  if (start->pending || end->pending) return kNotReady;
  *milliseconds = static_cast<float>(end->milliseconds - start->milliseconds);
  return kOk;
}

}  // extern "C"
