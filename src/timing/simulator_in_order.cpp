// Programs without semaphores: their queues would not be ordered at all. They run in program order; an instruction starts
// when its engine is free and the tiles and tensors it depends on are (read after write, write after read, write after
// write).
#include <algorithm>

#include "timing/machine.h"
#include "timing/queues.h"
#include "timing/simulator.h"

namespace neuron::timing {
namespace {

struct Times {
  double written_ns = 0, read_ns = 0;
};

class InOrder {
 public:
  InOrder(const isa::Program& program, Machine& machine, uint8_t core) : program_(program), machine_(machine), core_(core) {
    tensors_.resize(program.tensors.size());
    for (const isa::Tile& tile : program.tiles) {
      first_buffer_.push_back(buffers_.size());
      buffers_.resize(buffers_.size() + std::min(tile.buffers, kMostBuffers));
    }
  }

  void run(const isa::Stream& stream, const LoopPlan& plan) {
    size_t at = 0;
    std::array<Mark, isa::kMaxLoops> marks{};
    while (at < stream.steps.size()) {
      const isa::Step& step = stream.steps[at];
      if (step.kind == isa::Step::Kind::instruction) {
        execute(step.value);
        ++at;
      } else if (step.kind == isa::Step::Kind::loop) {
        iteration_[depth_++] = 0;
        ++at;
      } else {
        const uint32_t trips = stream.steps[step.match].value;
        int64_t& done = iteration_[depth_ - 1];
        ++done;
        done += jump(plan.windows[step.match], trips, done, marks[depth_ - 1]);
        if (done < trips) {
          at = step.match + 1;
        } else {
          --depth_;
          ++at;
        }
      }
    }
  }

 private:
  static constexpr uint32_t kMostBuffers = 64;  // rotation beyond this folds: later only, never earlier
  struct Mark {
    double end_ns = 0;
    std::array<double, 8> busy_ns{};
  };

  Times& times(const isa::Access& a) {
    if (a.space == isa::Space::hbm) return tensors_[a.object];
    const isa::Tile& tile = program_.tiles[a.object];
    const uint64_t turn = tile.buffers > 1 && tile.rotate_level < depth_
                              ? static_cast<uint64_t>(iteration_[tile.rotate_level]) % std::min(tile.buffers, kMostBuffers)
                              : 0;
    return buffers_[first_buffer_[a.object] + turn];
  }

  template <class Visit>
  void sources(const isa::Instruction& i, Visit visit) {
    for (const isa::Access* a : {&i.src0, &i.src1, &i.src2, &i.index}) {
      if (a->present()) visit(times(*a));
    }
    for (const isa::ScalarOperand* s : {&i.scalar0, &i.scalar1}) {
      if (s->kind == isa::ScalarOperand::Kind::access) visit(times(s->access));
    }
  }

  void execute(uint32_t number) {
    const isa::Instruction& i = program_.instructions[number];
    const size_t queue = i.engine == isa::Engine::dma ? 8 + (i.queue & 15) : static_cast<size_t>(i.engine) & 7;
    double needed = 0;
    sources(i, [&](const Times& t) { needed = std::max(needed, t.written_ns); });
    for (const isa::Access* a : {&i.dst, &i.dst2}) {
      if (!a->present() || a->space == isa::Space::hbm) continue;  // stores to different rows of a tensor do not wait
      const Times& t = times(*a);
      // TensorE adds to its accumulator in order without waiting for itself.
      needed = std::max({needed, i.engine == isa::Engine::tensor ? 0 : t.written_ns, t.read_ns});
    }
    const double ready = std::max(needed, queue_free_ns_[queue]);
    const Span span = machine_.run(core_, number, ready, needed > queue_free_ns_[queue]);
    queue_free_ns_[queue] = span.free_ns;
    end_ns_ = std::max(end_ns_, span.end_ns);
    sources(i, [&](Times& t) { t.read_ns = std::max(t.read_ns, span.end_ns); });
    for (const isa::Access* a : {&i.dst, &i.dst2}) {
      if (a->present()) times(*a).written_ns = std::max(times(*a).written_ns, span.end_ns);
    }
  }

  int64_t jump(const Window& w, uint32_t trips, int64_t done, Mark& mark) {
    if (!w.cuts(trips)) return 0;
    const auto busy = [this](size_t k) { return machine_.engine_busy_ns(static_cast<isa::Engine>(k)); };
    if (done == w.warm) {
      mark.end_ns = end_ns_;
      for (size_t k = 0; k < 8; ++k) mark.busy_ns[k] = busy(k);
    }
    if (done != w.warm + w.measure) return 0;
    const int64_t skipped = int64_t{trips} - done - w.drain;
    const double n = static_cast<double>(skipped) / w.measure;
    for (size_t k = 0; k < 8; ++k) machine_.add_busy_ns(static_cast<isa::Engine>(k), (busy(k) - mark.busy_ns[k]) * n);
    const double shift = (end_ns_ - mark.end_ns) * n;
    machine_.shift(core_, shift);
    machine_.extend_to(end_ns_ += shift);
    for (double& t : queue_free_ns_) t += shift;
    for (std::vector<Times>* all : {&tensors_, &buffers_}) {
      for (Times& t : *all) t = {t.written_ns + shift, t.read_ns + shift};
    }
    return skipped;
  }

  const isa::Program& program_;
  Machine& machine_;
  uint8_t core_;
  std::vector<Times> tensors_, buffers_;
  std::vector<size_t> first_buffer_;
  std::array<int64_t, isa::kMaxLoops> iteration_{};
  uint32_t depth_ = 0;
  std::array<double, 24> queue_free_ns_{};
  double end_ns_ = 0;
};

}  // namespace

Outcome run_in_order(const isa::Program& program, Machine& machine, const isa::Target& target,
                     const SimulationOptions& options) {
  // Cores of a program without semaphores do not wait for each other: each runs on its own clock from 0. Queues were given
  // DMA engines and HBM of their own; what they share bounds the whole.
  double bound_ns = 0, bytes_of_all = 0;
  for (size_t s = 0; s < program.streams.size(); ++s) {
    InOrder(program, machine, static_cast<uint8_t>(s))
        .run(program.streams[s], plan_loops(program.streams[s], options.full_limit));
    std::vector<double> times;
    count_executions(program, program.streams[s], times);
    double bytes = 0, dma_ns = 0;
    for (uint32_t n = 0; n < times.size(); ++n) {
      const Cost& c = machine.cost(n);
      bytes += static_cast<double>(c.hbm_read + c.hbm_written) * times[n];
      dma_ns += c.transfer_ns * c.engines / target.dma.engines * times[n];
    }
    bytes_of_all += bytes;
    bound_ns = std::max({bound_ns, bytes / target.hbm.core_bytes_per_ns, dma_ns});
  }
  return {std::max({machine.last_end_ns(), bound_ns, bytes_of_all / target.hbm.pair_bytes_per_ns}), false};
}

}  // namespace neuron::timing
