#include "timing/simulator.h"

#include <algorithm>
#include <limits>

#include "timing/machine.h"
#include "timing/queues.h"

namespace neuron::timing {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// The times at which a semaphore was signalled, in order of time. An extrapolated loop adds many at once, evenly spaced.
class Signals {
 public:
  void add(double at_ns) {
    entries_.push_back({total_, at_ns, 0});
    total_ += 1;
    for (size_t k = entries_.size() - 1; k > 0 && entries_[k - 1].at_ns > at_ns && entries_[k - 1].spacing_ns == 0; --k) {
      std::swap(entries_[k - 1].at_ns, entries_[k].at_ns);
    }
  }
  void add_many(double count, double first_ns, double spacing_ns) {
    entries_.push_back({total_, first_ns, spacing_ns});
    total_ += count;
  }
  // When the count reached `needed`; kNever if it has not.
  double reached(double needed) {
    if (needed <= 0) return 0;
    if (needed > total_) return kNever;
    const double index = needed - 1;
    // Waits ask for ever later signals, mostly: look near the last answer first.
    if (!holds(hint_, index) && !holds(++hint_, index)) {
      const auto after =
          std::upper_bound(entries_.begin(), entries_.end(), index, [](double v, const Entry& e) { return v < e.first; });
      hint_ = static_cast<size_t>(after - entries_.begin()) - 1;
    }
    const Entry& e = entries_[hint_];
    return e.at_ns + (index - e.first) * e.spacing_ns;
  }

 private:
  struct Entry {
    double first, at_ns, spacing_ns;  // number of the first signal; its time
  };
  bool holds(size_t k, double index) const {
    return k < entries_.size() && entries_[k].first <= index && (k + 1 == entries_.size() || index < entries_[k + 1].first);
  }
  std::vector<Entry> entries_;
  double total_ = 0;
  size_t hint_ = 0;
};

struct QueueState {
  const Queue* queue = nullptr;
  size_t at = 0;
  std::array<int64_t, isa::kMaxLoops> iteration{};
  double free_ns = 0;      // its previous instruction allows the next one
  double progress_ns = 0;  // latest completion
  double busy_ns = 0;
  double start_ns = 0;       // of the instruction at the head; kNever = blocked or finished
  uint64_t wait_filter = 0;  // bit (semaphore mod 64) of every semaphore that the head waits for
  struct Mark {
    double progress_ns = 0, busy_ns = 0;
  };
  std::array<Mark, isa::kMaxLoops> marks{};

  bool finished() const { return at >= queue->steps.size(); }
};

class Simulation {
 public:
  Simulation(const isa::Program& program, Machine& machine, const SimulationOptions& options)
      : program_(program), machine_(machine), signals_(program.semaphores) {
    for (size_t s = 0; s < program.streams.size(); ++s) {
      const LoopPlan plan = plan_loops(program.streams[s], options.full_limit);
      for (Queue& q : split_stream(program, program.streams[s], static_cast<uint8_t>(s), plan))
        queues_.push_back(std::move(q));
    }
    states_.resize(queues_.size());
    for (size_t q = 0; q < queues_.size(); ++q) states_[q].queue = &queues_[q];
  }

  Outcome run() {
    for (QueueState& s : states_) {
      advance(s);
      look(s);
    }
    for (;;) {
      QueueState* next = nullptr;
      for (QueueState& s : states_) {
        if (s.start_ns < (next ? next->start_ns : kNever)) next = &s;
      }
      if (!next) break;
      execute(*next);
    }
    Outcome outcome{machine_.last_end_ns(), false};
    for (const QueueState& s : states_) outcome.deadlock |= !s.finished();
    return outcome;
  }

 private:
  // Moves over loop starts and ends to the next instruction.
  void advance(QueueState& s) {
    const std::vector<QueueStep>& steps = s.queue->steps;
    while (s.at < steps.size()) {
      const QueueStep& step = steps[s.at];
      if (step.kind == isa::Step::Kind::instruction) return;
      if (step.kind == isa::Step::Kind::loop) {
        s.iteration[step.level] = 0;
        s.at += 1;
        continue;
      }
      const int64_t done = s.iteration[step.level] + 1 + jump(s, step, s.iteration[step.level] + 1);
      s.iteration[step.level] = done;
      s.at = done < step.value ? step.match + 1 : s.at + 1;
    }
  }

  // At the end of an iteration of a loop that is cut short: iterations to leave out, with their time and signals accounted
  // for.
  int64_t jump(QueueState& s, const QueueStep& end, int64_t done) {
    const Window& w = end.window;
    if (!w.cuts(end.value)) return 0;
    QueueState::Mark& mark = s.marks[end.level];
    if (done == w.warm) mark = {s.progress_ns, s.busy_ns};
    if (done != w.warm + w.measure) return 0;
    const int64_t skipped = int64_t{end.value} - done - w.drain;
    const double period = (s.progress_ns - mark.progress_ns) / w.measure;
    const double n = static_cast<double>(skipped);
    for (const SignalCount& c : s.queue->signals[s.at]) {
      signals_[c.semaphore].add_many(c.per_iteration * n, s.progress_ns + period / c.per_iteration,
                                     period / c.per_iteration);
      touch(c.semaphore);
    }
    machine_.add_busy_ns(s.queue->engine, (s.busy_ns - mark.busy_ns) / w.measure * n);
    // The queue goes on at the pace of its completions, also where it had issued far ahead of them.
    s.free_ns = std::max(s.free_ns, s.progress_ns) + n * period;
    s.progress_ns += n * period;
    machine_.extend_to(s.progress_ns);
    return skipped;
  }

  // When could the instruction at the head start, as far as is known?
  void look(QueueState& s) {
    if (s.finished()) {
      s.start_ns = kNever;
      s.wait_filter = 0;
      return;
    }
    const isa::Instruction& i = program_.instructions[s.queue->steps[s.at].value];
    double start = s.free_ns;
    s.wait_filter = 0;
    for (const isa::Wait& w : i.waits) {
      double needed = static_cast<double>(w.base);
      for (int l = 0; l < isa::kMaxLoops; ++l) {
        if (w.loop_step[l]) needed += static_cast<double>(w.loop_step[l]) * static_cast<double>(s.iteration[l]);
      }
      s.wait_filter |= uint64_t{1} << (w.semaphore & 63);
      start = std::max(start, signals_[w.semaphore].reached(needed));
    }
    s.start_ns = start;
  }

  void touch(uint16_t semaphore) { touched_ |= uint64_t{1} << (semaphore & 63); }

  void execute(QueueState& s) {
    const uint32_t number = s.queue->steps[s.at].value;
    const isa::Instruction& i = program_.instructions[number];
    const double before = machine_.engine_busy_ns(s.queue->engine);
    const Span span = machine_.run(s.queue->core, number, s.start_ns, s.start_ns > s.free_ns);
    s.busy_ns += machine_.engine_busy_ns(s.queue->engine) - before;
    s.free_ns = span.free_ns;
    s.progress_ns = std::max(s.progress_ns, span.end_ns);
    touched_ = 0;
    if (i.signal != isa::kNoSemaphore) {
      signals_[i.signal].add(span.end_ns);
      touch(i.signal);
    }
    s.at += 1;
    advance(s);
    look(s);
    if (!touched_) return;
    for (QueueState& other : states_) {
      if (&other != &s && (other.wait_filter & touched_)) look(other);
    }
  }

  const isa::Program& program_;
  Machine& machine_;
  std::vector<Signals> signals_;
  std::vector<Queue> queues_;
  std::vector<QueueState> states_;
  uint64_t touched_ = 0;  // semaphores signalled by the instruction being executed, mod 64
};

std::string bounding_engine(const Estimate& e, double execution_ns, bool deadlock) {
  if (deadlock) return "deadlock";
  if (execution_ns < e.launch_ns) return "launch";
  size_t busiest = 0;
  for (size_t k = 1; k < std::size(e.busy_ns); ++k) {
    if (e.busy_ns[k] > e.busy_ns[busiest]) busiest = k;
  }
  if (e.busy_ns[busiest] < 0.5 * execution_ns) return "latency";
  static constexpr const char* kNames[] = {"latency", "tensor", "scalar", "gpsimd", "dma", "vector", "sync", "latency"};
  return kNames[busiest];
}

}  // namespace

Outcome run_queues(const isa::Program& program, Machine& machine, const SimulationOptions& options) {
  return Simulation(program, machine, options).run();
}

Estimate simulate(const isa::Program& program, const SimulationOptions& options) {
  Estimate e;
  const isa::Target* target = isa::find_target(program.target);
  if (!target) return e;
  const bool semaphores = program.semaphores > 0;
  Machine machine(program, *target, semaphores, options.max_events);
  const Outcome outcome =
      semaphores ? run_queues(program, machine, options) : run_in_order(program, machine, *target, options);
  std::vector<double> times;
  for (const isa::Stream& s : program.streams) count_executions(program, s, times);
  double read = 0, written = 0, flops = 0;
  for (size_t n = 0; n < program.instructions.size(); ++n) {
    const Cost& c = machine.cost(static_cast<uint32_t>(n));
    read += static_cast<double>(c.hbm_read) * times[n];
    written += static_cast<double>(c.hbm_written) * times[n];
    flops += static_cast<double>(c.flops) * times[n];
    if (c.routine) e.routine_ns += c.occupancy_ns * times[n];
  }
  const auto whole = [](double v) { return v < 1.8e19 ? static_cast<uint64_t>(v) : UINT64_MAX; };
  e.hbm_bytes_read = whole(read);
  e.hbm_bytes_written = whole(written);
  e.flops = whole(flops);
  for (size_t k = 0; k < std::size(e.busy_ns); ++k) e.busy_ns[k] = machine.engine_busy_ns(static_cast<isa::Engine>(k));
  e.launch_ns = target->launch_ns;
  e.total_ns = e.launch_ns + outcome.execution_ns;
  e.bound_by = bounding_engine(e, outcome.execution_ns * static_cast<double>(program.streams.size()), outcome.deadlock);
  e.events = machine.take_events();
  return e;
}

}  // namespace neuron::timing
