#include "timing/queues.h"

#include <algorithm>
#include <map>

namespace neuron::timing {
namespace {

using isa::Step;

// Executed instructions of the stream when loops run with their windows.
double executed(const isa::Stream& stream, const std::vector<Window>& windows) {
  std::vector<double> counts = {0};
  for (size_t s = 0; s < stream.steps.size(); ++s) {
    const Step& step = stream.steps[s];
    if (step.kind == Step::Kind::loop) counts.push_back(0);
    if (step.kind == Step::Kind::instruction) counts.back() += 1;
    if (step.kind == Step::Kind::end && counts.size() > 1) {
      const uint32_t trips = stream.steps[step.match].value;
      const Window& w = windows[step.match];
      const double inner = counts.back() * (w.cuts(trips) ? w.warm + w.measure + w.drain : trips);
      counts.pop_back();
      counts.back() += inner;
    }
  }
  return counts.front();
}

int queue_number(const isa::Instruction& i) {
  return i.engine == isa::Engine::dma ? 8 + i.queue : static_cast<int>(i.engine);
}

}  // namespace

LoopPlan plan_loops(const isa::Stream& stream, uint64_t full_limit) {
  LoopPlan plan{std::vector<Window>(stream.steps.size())};
  // Measured iterations are a multiple of the usual rotation periods 2, 3, 4, 6 and 8.
  static constexpr Window kWindows[] = {{24, 24, 8}, {8, 12, 4}, {3, 4, 2}, {1, 1, 1}};
  for (const Window& window : kWindows) {
    if (executed(stream, plan.windows) <= static_cast<double>(full_limit)) break;
    for (size_t s = 0; s < stream.steps.size(); ++s) {
      if (stream.steps[s].kind == Step::Kind::loop) plan.windows[s] = window;
    }
  }
  return plan;
}

uint64_t count_executions(const isa::Program& program, const isa::Stream& stream, std::vector<double>& times) {
  times.resize(program.instructions.size());
  std::vector<double> factors = {1};
  double total = 0;
  for (const Step& step : stream.steps) {
    if (step.kind == Step::Kind::loop) factors.push_back(factors.back() * step.value);
    if (step.kind == Step::Kind::end && factors.size() > 1) factors.pop_back();
    if (step.kind == Step::Kind::instruction) {
      times[step.value] += factors.back();
      total += factors.back();
    }
  }
  return total < 1e18 ? static_cast<uint64_t>(total) : UINT64_MAX;
}

namespace {

// Removes the loop that was just closed if nothing is in it; otherwise closes it.
void close_loop(Queue& q, std::vector<uint32_t>& open, std::vector<std::map<uint16_t, double>>& counts) {
  const uint32_t begin = open.back();
  open.pop_back();
  const std::map<uint16_t, double> inner = std::move(counts.back());
  counts.pop_back();
  if (begin + 1 == q.steps.size()) {
    q.steps.pop_back();
    q.signals.pop_back();
    return;
  }
  QueueStep end = q.steps[begin];
  end.kind = Step::Kind::end;
  end.match = begin;
  q.steps[begin].match = static_cast<uint32_t>(q.steps.size());
  q.steps.push_back(end);
  q.signals.emplace_back();
  for (const auto& [semaphore, count] : inner) {
    if (end.window.cuts(end.value)) q.signals.back().push_back({semaphore, count});
    counts.back()[semaphore] += count * end.value;
  }
}

}  // namespace

std::vector<Queue> split_stream(const isa::Program& program, const isa::Stream& stream, uint8_t core, const LoopPlan& plan) {
  std::vector<Queue> queues;
  uint32_t used = 0;
  for (const Step& step : stream.steps) {
    if (step.kind == Step::Kind::instruction) used |= 1u << queue_number(program.instructions[step.value]);
  }
  for (int number = 0; number < 32; ++number) {
    if (!(used & (1u << number))) continue;
    Queue q;
    q.engine = number >= 8 ? isa::Engine::dma : static_cast<isa::Engine>(number);
    q.queue = static_cast<uint8_t>(number >= 8 ? number - 8 : 0);
    q.core = core;
    std::vector<uint32_t> open;
    std::vector<std::map<uint16_t, double>> counts(1);
    for (size_t s = 0; s < stream.steps.size(); ++s) {
      const Step& step = stream.steps[s];
      if (step.kind == Step::Kind::end) {
        close_loop(q, open, counts);
        continue;
      }
      if (step.kind == Step::Kind::instruction && queue_number(program.instructions[step.value]) != number) continue;
      if (step.kind == Step::Kind::loop) {
        open.push_back(static_cast<uint32_t>(q.steps.size()));
        counts.emplace_back();
        q.steps.push_back({step.kind, static_cast<uint8_t>(open.size() - 1), step.value, 0, plan.windows[s]});
      } else {
        const uint16_t signal = program.instructions[step.value].signal;
        if (signal != isa::kNoSemaphore) counts.back()[signal] += 1;
        q.steps.push_back({step.kind, 0, step.value, 0, {}});
      }
      q.signals.emplace_back();
    }
    queues.push_back(std::move(q));
  }
  return queues;
}

}  // namespace neuron::timing
