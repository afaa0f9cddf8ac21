// Streams, events and graphs of the fake driver.
#include <algorithm>
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
  Lock lock;
  if (int status = begin("cuStreamCreate", kOutOfMemory); status != kOk) return status;
  state().streams.insert(*out = new Stream{.ordinal = ordinal()});
  if (state().first == nullptr) state().first = *out;
  return kOk;
}
int cuStreamDestroy_v2(Stream* stream) {
  Lock lock;
  if (state().streams.count(stream) == 0) return kInvalidHandle;
  drain(*stream);
  state().streams.erase(stream);
  if (state().first == stream) state().first = nullptr;
  delete stream;
  return kOk;
}
int cuStreamSynchronize(Stream* stream) {
  Lock lock;
  if (int status = begin("cuStreamSynchronize"); status != kOk) return status;
  if (!known(state().streams, stream)) return kInvalidHandle;
  if (int status = forbid_in_capture(); status != kOk) return status;
  return drain(*stream);
}
// A GPU would have worked meanwhile.
int cuStreamQuery(Stream* stream) {
  Lock lock;
  if (int status = begin("cuStreamQuery"); status != kOk) return status;
  if (!known(state().streams, stream)) return kInvalidHandle;
  if (int status = forbid_in_capture(); status != kOk) return status;
  while (!stream->queue.empty() && advance(*stream)) {
  }
  return state().sticky != kOk || stream->queue.empty() ? state().sticky : kNotReady;
}
int cuStreamWaitEvent(Stream* stream, Event* event, unsigned) {
  Lock lock;
  if (int status = begin("cuStreamWaitEvent"); status != kOk) return status;
  if (!known(state().streams, stream) || !known(state().events, event)) return kInvalidHandle;
  if (!event->mark) return kOk;  // never recorded: there is nothing to wait for
  if (event->capture && event->capture->ended) return kCaptureIsolation;
  if (event->capture && !stream->capture) {
    stream->capture = event->capture, stream->branch = event->capture->streams.size();
    event->capture->streams.push_back(stream);
    event->capture->length.push_back(0), event->capture->joined.push_back(0);
  }
  if (stream->capture != event->capture) return kCaptureIsolation;
  if (stream->capture && stream->branch == 0 && event->branch != 0)
    stream->capture->joined[event->branch] = std::max(stream->capture->joined[event->branch], event->length);
  return put(stream, {nullptr, event->mark, nullptr});
}
int cuStreamBeginCapture_v2(Stream* stream, int mode) {
  Lock lock;
  if (int status = begin("cuStreamBeginCapture"); status != kOk) return status;
  if (!known(state().streams, stream) || mode != 1) return kInvalidValue;
  if (stream->capture) return kInvalidValue;
  stream->capture = std::make_shared<Capture>(Capture{{stream}, {0}, {0}, {}});
  stream->branch = 0;
  return kOk;
}
int cuStreamEndCapture(Stream* stream, Graph** out) {
  Lock lock;
  if (!known(state().streams, stream) || !stream->capture || stream->branch != 0) return kInvalidValue;
  std::shared_ptr<Capture> capture = stream->capture;
  capture->ended = true;
  for (Stream* of : capture->streams) of->capture = nullptr, of->branch = 0;
  *out = nullptr;
  if (capture->broken) return kCaptureInvalidated;
  for (size_t b = 1; b < capture->streams.size(); ++b)
    if (capture->joined[b] < capture->length[b]) return kCaptureUnjoined;
  if (int status = begin("cuStreamEndCapture"); status != kOk) return status;
  state().graphs.insert(*out = new Graph{std::move(capture->nodes), capture->streams.size()});
  return kOk;
}

int cuGraphInstantiateWithFlags(Graph** out, Graph* graph, unsigned long long) {
  Lock lock;
  if (int status = begin("cuGraphInstantiate", kOutOfMemory); status != kOk) return status;
  if (!known(state().graphs, graph)) return kInvalidHandle;
  state().execs.insert(*out = new Graph{graph->nodes, graph->branches});
  for (size_t b = 1; b < graph->branches; ++b) (*out)->streams.push_back(std::make_unique<Stream>());
  return kOk;
}
int cuGraphDestroy(Graph* graph) {
  Lock lock;
  if (state().graphs.erase(graph) == 0) return kInvalidHandle;
  delete graph;
  return kOk;
}
int cuGraphExecDestroy(Graph* exec) {
  Lock lock;
  if (state().execs.count(exec) == 0) return kInvalidHandle;
  for (auto& stream : exec->streams) drain(*stream);
  state().execs.erase(exec);
  delete exec;
  return kOk;
}
int cuGraphUpload(Graph* exec, Stream* stream) {
  Lock lock;
  if (int status = begin("cuGraphUpload"); status != kOk) return status;
  return known(state().execs, exec) && known(state().streams, stream) ? kOk : kInvalidHandle;
}
// The first branch runs in the stream, the others beside it as their events say.
int cuGraphLaunch(Graph* exec, Stream* stream) {
  Lock lock;
  if (int status = begin("cuGraphLaunch"); status != kOk) return status;
  if (!known(state().execs, exec) || !known(state().streams, stream)) return kInvalidHandle;
  if (stream->capture) return kCaptureUnsupported;
  std::map<Mark*, std::shared_ptr<Mark>> fresh;  // of this launch
  for (const Capture::Node& node : exec->nodes) {
    Stream* to = node.branch == 0 ? stream : exec->streams[node.branch - 1].get();
    Item item = node.item;
    if (item.after) item.after = fresh.at(item.after.get());
    if (item.mark) item.mark = fresh[item.mark.get()] = std::make_shared<Mark>(Mark{to, false});
    to->queue.push_back(std::move(item));
    hurry();
  }
  return kOk;
}

int cuEventCreate(Event** out, unsigned flags) {
  Lock lock;
  if (int status = begin("cuEventCreate", kOutOfMemory); status != kOk) return status;
  state().events.insert(*out = new Event{.timing = (flags & 2) == 0});
  return kOk;
}
int cuEventDestroy_v2(Event* event) {
  Lock lock;
  if (!known(state().events, event)) return kInvalidHandle;
  if (!event->capture)
    while (event->mark && !event->mark->done && !event->mark->stream->queue.empty())
      if (!advance(*event->mark->stream)) let_others();
  state().events.erase(event);
  delete event;
  return kOk;
}
int cuEventRecord(Event* event, Stream* stream) {
  Lock lock;
  if (int status = begin("cuEventRecord"); status != kOk) return status;
  if (!known(state().events, event) || !known(state().streams, stream)) return kInvalidHandle;
  event->mark = std::make_shared<Mark>(Mark{stream, false});
  event->capture = stream->capture, event->branch = stream->branch;
  Work happens = [event] {
    if (known(state().events, event)) event->milliseconds = now();
    return kOk;
  };
  int status = put(stream, {happens, nullptr, event->mark});
  if (stream->capture) event->length = stream->capture->length[stream->branch];
  return status;
}
int cuEventSynchronize(Event* event) {
  Lock lock;
  if (int status = begin("cuEventSynchronize"); status != kOk) return status;
  if (!known(state().events, event)) return kInvalidHandle;
  if (int status = forbid_in_capture(); status != kOk) return status;
  // No further than the event: what stands after it may still be on its way.
  while (event->mark && !event->capture && !event->mark->done)
    if (!advance(*event->mark->stream)) let_others();
  return state().sticky;
}
int cuEventQuery(Event* event) {
  Lock lock;
  if (int status = begin("cuEventQuery"); status != kOk) return status;
  if (!known(state().events, event) || event->capture) return kInvalidHandle;
  if (int status = forbid_in_capture(); status != kOk) return status;
  while (event->mark && !event->mark->done && advance(*event->mark->stream)) {
  }
  bool done = !event->mark || event->mark->done;
  return state().sticky != kOk || done ? state().sticky : kNotReady;
}
int cuEventElapsedTime(float* milliseconds, Event* start, Event* end) {
  Lock lock;
  if (int status = begin("cuEventElapsedTime"); status != kOk) return status;
  if (!known(state().events, start) || !known(state().events, end)) return kInvalidHandle;
  if (!start->timing || !end->timing) return kInvalidHandle;
  for (Event* e : {start, end})
    if (!e->mark || !e->mark->done) return kNotReady;
  *milliseconds = static_cast<float>(end->milliseconds - start->milliseconds);
  return kOk;
}

}  // extern "C"
