// Streams and events. Streams of one core share its FIFO, so a stream is only a name; an event is a point in a FIFO with a
// stamp of the modelled clock.
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "runtime/process.h"

namespace neuron::runtime {

class Event : public std::enable_shared_from_this<Event> {
 public:
  explicit Event(bool timing) : timing(timing) {}
  const bool timing;
  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  uint64_t recorded = 0;   // record calls so far
  uint64_t completed = 0;  // the last of them that the FIFO has reached
  double stamp_ns = 0;
};

namespace {

std::atomic<int64_t> next_stream{1};
thread_local std::vector<int64_t> current_streams;  // by device; 0 = default

Result<Core*> core_of(int device) {
  NEURON_ASSIGN(Process* const p, require_process());
  NEURON_RETURN_IF_ERROR(check_device(*p, device));
  return p->cores[device].get();
}

}  // namespace

int64_t current_stream(int device) {
  return device >= 0 && device < static_cast<int>(current_streams.size()) ? current_streams[device] : 0;
}

int64_t exchange_stream(int device, int64_t stream) {
  if (device < 0 || device >= kMaxCores) return 0;
  if (device >= static_cast<int>(current_streams.size())) current_streams.resize(device + 1, 0);
  return std::exchange(current_streams[device], stream);
}

int64_t new_stream(int, int) { return next_stream.fetch_add(1); }

Status synchronize(int device) {
  if (!initialized()) return {};
  NEURON_ASSIGN(Core* const core, core_of(device));
  return core->synchronize();
}

Status synchronize_stream(int device, int64_t) { return synchronize(device); }

bool query_stream(int device, int64_t) {
  if (!initialized()) return true;
  auto core = core_of(device);
  return core.ok() && (*core)->idle();
}

std::shared_ptr<Event> create_event(bool timing) { return std::make_shared<Event>(timing); }

Status record_event(Event& event, int device, int64_t) {
  NEURON_ASSIGN(Core* const core, core_of(device));
  uint64_t ticket;
  {
    std::lock_guard lock(event.mutex);
    ticket = ++event.recorded;
  }
  // Queued work keeps the event alive: a user may drop it before its place is reached.
  auto reach = [kept = event.shared_from_this(), core, ticket] {
    const double now = kept->timing ? core->clock_ns() : 0;
    std::lock_guard lock(kept->mutex);
    kept->completed = std::max(kept->completed, ticket);
    kept->stamp_ns = now;
    kept->changed.notify_all();
    return Status();
  };
  Status status;
  if (!core->try_run(reach, &status)) core->enqueue(reach);
  return {};
}

bool query_event(const Event& event) {
  std::lock_guard lock(event.mutex);
  return event.completed == event.recorded;
}

Status synchronize_event(const Event& event) {
  std::unique_lock lock(event.mutex);
  event.changed.wait(lock, [&] { return event.completed == event.recorded; });
  return {};
}

Status wait_event(Event& event, int device, int64_t) {
  NEURON_ASSIGN(Core* const core, core_of(device));
  auto wait = [kept = event.shared_from_this(), core] {
    Status status = synchronize_event(*kept);
    if (kept->timing) core->raise_clock(kept->stamp_ns);
    return status;
  };
  if (query_event(event)) return wait();
  core->enqueue(wait);
  return {};
}

Result<double> elapsed_ms(const Event& start, const Event& end) {
  if (!start.timing || !end.timing) return invalid_argument("both events must be created with enable_timing=True");
  for (const Event* e : {&start, &end}) {
    std::lock_guard lock(e->mutex);
    if (e->recorded == 0) return invalid_argument("both events must be recorded before their elapsed time is asked for");
    if (e->completed != e->recorded) return unavailable("an event has not completed yet: synchronize first");
  }
  return (end.stamp_ns - start.stamp_ns) / 1e6;
}

}  // namespace neuron::runtime
