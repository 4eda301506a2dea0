#include "compiler/schedule.h"

#include <algorithm>
#include <map>

#include "compiler/access_walk.h"

namespace neuron::compiler {

namespace {

constexpr int kQueues = 32;
constexpr uint32_t kNone = 0xffffffffu;

int queue_of(const isa::Instruction& in) {
  return in.engine == isa::Engine::dma ? 8 + in.queue % 24 : static_cast<int>(in.engine);
}

// One executed access, as the walk met it.
struct Record {
  uint32_t step = 0;                           // of the instruction
  uint32_t loop = kNone;                       // innermost loop
  std::array<uint8_t, isa::kMaxLoops> pass{};  // which walk of each enclosing loop
  bool writes = false;
  bool whole = false;         // touches an unknown part of the object
  int64_t low = 0, high = 0;  // bytes at iteration 0 of every loop, in the object
  std::array<int64_t, isa::kMaxLoops> loop_step{};
};

// Things whose bytes are tracked: tiles (by physical place), scratch tensors (by place in the arena), other tensors.
struct Object {
  int space = 0;
  int64_t offset = 0, bytes = 0;
  bool rotates = false;
  uint32_t rotate_level = 0;
  uint32_t buffers = 1;
  bool written = false;           // by anything; inputs and constants need no tracking
  bool owner = false;             // of its bytes, since another object last used them
  std::vector<Record> inherited;  // accesses to the same bytes under another name, latest per queue
  std::vector<Record> records;    // own accesses that a later one may have to wait for
};

class Scheduler {
 public:
  Scheduler(ProgramBuilder& builder, const ArenaPlan& arena)
      : builder_(builder), p_(builder.program()), steps_(p_.streams[0].steps), arena_(arena) {}

  void run() {
    analyse_loops();
    make_objects();
    walk(0, static_cast<uint32_t>(steps_.size()));
    emit();
  }

 private:
  // --- static facts ---
  void analyse_loops() {
    parent_.assign(steps_.size(), kNone);
    depth_.assign(steps_.size(), 0);
    position_.assign(steps_.size(), 0);
    per_iteration_.assign(steps_.size(), {});
    std::array<int64_t, kQueues> run{};
    std::vector<uint32_t> open;
    std::vector<std::array<int64_t, kQueues>> at_open;
    for (uint32_t s = 0; s < steps_.size(); ++s) {
      const isa::Step& step = steps_[s];
      if (step.kind == isa::Step::Kind::end) {
        const uint32_t loop = open.back();
        for (size_t q = 0; q < kQueues; ++q) {
          const int64_t once = run[q] - at_open.back()[q];
          if (once != 0) per_iteration_[loop].emplace_back(static_cast<int>(q), once);
          run[q] += once * (static_cast<int64_t>(steps_[loop].value) - 1);
        }
        open.pop_back();
        at_open.pop_back();
        continue;
      }
      parent_[s] = open.empty() ? kNone : open.back();
      depth_[s] = static_cast<uint8_t>(open.size());
      if (step.kind == isa::Step::Kind::loop) {
        open.push_back(s);
        at_open.push_back(run);
      } else {
        position_[s] = ++run[static_cast<size_t>(queue_of(p_.instructions[step.value]))];
      }
    }
  }

  int64_t executions(uint32_t loop, int queue) const {
    for (const auto& [q, n] : per_iteration_[loop])
      if (q == queue) return n;
    return 0;
  }

  void make_objects() {
    const size_t tiles = p_.tiles.size();
    objects_.resize(tiles + p_.tensors.size());
    for (size_t t = 0; t < tiles; ++t) {
      const isa::Tile& tile = p_.tiles[t];
      Object& o = objects_[t];
      o.space = tile.space == isa::Space::psum ? 1 : 0;
      o.offset = static_cast<int64_t>(tile.byte_offset);
      o.bytes = static_cast<int64_t>(tile.bytes_per_partition) * tile.buffers;
      o.rotates = tile.buffers > 1;
      o.rotate_level = tile.rotate_level;
      o.buffers = tile.buffers;
    }
    owners_.resize(3);
    for (size_t t = 0; t < p_.tensors.size(); ++t) {
      Object& o = objects_[tiles + t];
      o.bytes = static_cast<int64_t>(p_.tensors[t].bytes);
      if (t < arena_.offset.size() && arena_.offset[t] >= 0) {
        o.space = 2;
        o.offset = arena_.offset[t];
        o.bytes = (o.bytes + 511) / 512 * 512;
      } else {
        o.space = -1;  // bytes of its own
      }
    }
    for (const isa::Step& step : steps_) {
      if (step.kind != isa::Step::Kind::instruction) continue;
      for_each_access(p_.instructions[step.value], [&](const isa::Access& a, bool writes) {
        if (writes) objects_[object_of(a)].written = true;
      });
    }
  }

  size_t object_of(const isa::Access& a) const {
    if (a.space != isa::Space::hbm) return a.object;
    const isa::Tensor& t = p_.tensors[a.object];
    return p_.tiles.size() + (t.alias_of >= 0 ? static_cast<size_t>(t.alias_of) : a.object);
  }

  // --- ownership of bytes shared by several objects ---
  void acquire(size_t id) {
    Object& o = objects_[id];
    if (o.owner || o.space < 0) return;
    std::map<int64_t, std::pair<int64_t, size_t>>& map = owners_[static_cast<size_t>(o.space)];  // start -> (end, object)
    const int64_t begin = o.offset, end = o.offset + o.bytes;
    auto it = map.upper_bound(begin);
    if (it != map.begin() && std::prev(it)->second.first > begin) --it;
    std::vector<std::pair<int64_t, std::pair<int64_t, size_t>>> pieces;
    while (it != map.end() && it->first < end) {
      const int64_t s = it->first, e = it->second.first;
      const size_t other = it->second.second;
      it = map.erase(it);
      if (other != id) {
        inherit(o, objects_[other]);
        objects_[other].owner = false;
      }
      if (s < begin) pieces.push_back({s, {begin, other}});
      if (e > end) pieces.push_back({end, {e, other}});
    }
    for (const auto& piece : pieces) map.insert(piece);
    map[begin] = {end, id};
    o.owner = true;
  }

  void inherit(Object& to, const Object& from) {
    for (const std::vector<Record>* list : {&from.inherited, &from.records}) {
      for (const Record& r : *list) {
        const int q = queue_of(instruction(r.step));
        auto same = std::find_if(to.inherited.begin(), to.inherited.end(),
                                 [&](const Record& x) { return queue_of(instruction(x.step)) == q; });
        Record copy = r;
        copy.whole = copy.writes = true;
        if (same == to.inherited.end()) {
          to.inherited.push_back(copy);
        } else if (later(copy, *same)) {
          *same = copy;
        }
      }
    }
  }

  const isa::Instruction& instruction(uint32_t step) const { return p_.instructions[steps_[step].value]; }

  // Was x met after y in the walk?
  bool later(const Record& x, const Record& y) const {
    const uint32_t c = common_depth(x.step, y.step);
    for (uint32_t l = 0; l < c; ++l)
      if (x.pass[l] != y.pass[l]) return x.pass[l] > y.pass[l];
    return x.step > y.step;
  }

  uint32_t common_depth(uint32_t a, uint32_t b) const {
    uint32_t la = parent_[a], lb = parent_[b];
    while (la != lb) {
      const int da = la == kNone ? -1 : depth_[la], db = lb == kNone ? -1 : depth_[lb];
      if (da >= db)
        la = parent_[la];
      else
        lb = parent_[lb];
    }
    return la == kNone ? 0 : depth_[la] + 1u;
  }

  uint32_t loop_at(uint32_t step, uint32_t level) const {
    uint32_t l = parent_[step];
    while (depth_[l] > level) l = parent_[l];
    return l;
  }

  // --- the walk ---
  void walk(uint32_t begin, uint32_t end) {
    for (uint32_t s = begin; s < end; ++s) {
      const isa::Step& step = steps_[s];
      if (step.kind == isa::Step::Kind::instruction) {
        visit(s);
      } else if (step.kind == isa::Step::Kind::loop) {
        const size_t level = depth_[s];
        const auto known = waited_;
        pass_[level] = 0;
        walk(s + 1, step.match);
        if (step.value > 1) {
          waited_ = known;
          pass_[level] = 1;
          walk(s + 1, step.match);
        }
        waited_ = known;
        pass_[level] = 0;
        s = step.match;
      }
    }
  }

  Record make_record(uint32_t s, const isa::Access& a, bool writes, bool indexed) const {
    Record r;
    r.step = s;
    r.loop = parent_[s];
    r.pass = pass_;
    r.writes = writes;
    r.loop_step = a.loop_step;
    r.whole = indexed && a.space == isa::Space::hbm;
    int64_t low = a.offset, high = a.offset;
    const auto stretch = [&](int64_t reach) { (reach < 0 ? low : high) += reach; };
    if (a.space == isa::Space::hbm) stretch(a.partition_stride * (static_cast<int64_t>(a.partitions) - 1));
    for (int d = 0; d < a.rank; ++d)
      stretch(a.dims[static_cast<size_t>(d)].stride * (static_cast<int64_t>(a.dims[static_cast<size_t>(d)].count) - 1));
    r.low = low;
    r.high = high + static_cast<int64_t>(size_of(a.dtype));
    return r;
  }

  void visit(uint32_t s) {
    const isa::Instruction& in = instruction(s);
    struct Touch {
      size_t object;
      Record record;
    };
    std::vector<Touch> touches;
    for_each_access(in, [&](const isa::Access& a, bool writes) {
      touches.push_back({object_of(a), make_record(s, a, writes, in.index.present() && &a != &in.index)});
    });
    std::erase_if(touches, [&](const Touch& t) { return !objects_[t.object].written; });
    for (Touch& t : touches) {
      acquire(t.object);
      depend(s, objects_[t.object], t.record);
    }
    for (Touch& t : touches) remember(objects_[t.object], t.record);
  }

  void depend(uint32_t s, const Object& o, const Record& b) {
    const int qb = queue_of(instruction(s));
    for (const std::vector<Record>* list : {&o.inherited, &o.records}) {
      for (const Record& a : *list) {
        if (!a.writes && !b.writes) continue;
        const int qa = queue_of(instruction(a.step));
        if (qa == qb) continue;
        const uint32_t common = common_depth(a.step, s);
        uint32_t lag_level = common;
        for (uint32_t l = 0; l < common; ++l) {
          if (a.pass[l] != pass_[l]) {
            lag_level = l;
            break;
          }
        }
        const int64_t lag = lag_level == common ? 0 : find_lag(o, a, b, common, lag_level, list == &o.inherited);
        if (lag < 0) continue;
        if (lag == 0 && lag_level == common && !overlap(a, b, common, common, 0)) continue;
        wait_for(s, a.step, qa, common, lag_level, lag);
      }
    }
  }

  // Distance in iterations of loop `level` at which b meets bytes of a; -1 = never.
  int64_t find_lag(const Object& o, const Record& a, const Record& b, uint32_t common, uint32_t level,
                   bool inherited) const {
    if (inherited) return 1;
    const uint32_t loop = loop_at(b.step, level);
    if (o.space != 0 && o.space != 1 && builder_.loop_facts()[loop].hbm_independent) return -1;
    if (o.rotates && o.rotate_level == level) return o.buffers < steps_[loop].value ? int64_t{o.buffers} : int64_t{-1};
    if (a.whole || b.whole || a.loop_step[level] != b.loop_step[level]) return 1;
    const int64_t trips = steps_[loop].value;
    for (int64_t d = 1; d < std::min<int64_t>(trips, 64); ++d)
      if (overlap(a, b, common, level, d)) return d;
    return -1;
  }

  // May a (in the iteration `lag` before b's, at `level`) and b touch a common byte?
  bool overlap(const Record& a, const Record& b, uint32_t common, uint32_t level, int64_t lag) const {
    if (a.whole || b.whole) return true;
    int64_t al = a.low, ah = a.high, bl = b.low, bh = b.high;
    const auto stretch = [&](const Record& r, uint32_t l, int64_t& low, int64_t& high) {
      const int64_t reach = r.loop_step[l] * (static_cast<int64_t>(steps_[loop_at(r.step, l)].value) - 1);
      (reach < 0 ? low : high) += reach;
    };
    for (uint32_t l = 0; l < depth_[a.step]; ++l) {
      const bool shared = l < common && a.loop_step[l] == b.loop_step[l];
      if (shared && l < level) continue;
      if (shared && l == level) {
        al -= lag * a.loop_step[l];
        ah -= lag * a.loop_step[l];
        continue;
      }
      stretch(a, l, al, ah);
    }
    for (uint32_t l = 0; l < depth_[b.step]; ++l) {
      if (l < common && l <= level && a.loop_step[l] == b.loop_step[l]) continue;
      stretch(b, l, bl, bh);
    }
    return al < bh && bl < ah;
  }

  void wait_for(uint32_t s, uint32_t a, int qa, uint32_t common, uint32_t lag_level, int64_t lag) {
    isa::Wait w;
    w.semaphore = static_cast<uint16_t>(qa);
    w.base = position_[a];
    for (uint32_t l = parent_[a]; l != kNone; l = parent_[l]) {
      const uint32_t level = depth_[l];
      const int64_t n = executions(l, qa);
      if (level < common && level <= lag_level) {
        w.loop_step[level] = n;
        if (level == lag_level) w.base -= lag * n;
      } else {
        w.base += (static_cast<int64_t>(steps_[l].value) - 1) * n;
      }
    }
    const int qb = queue_of(instruction(s));
    std::vector<isa::Wait>& known = waited_[static_cast<size_t>(qb)];
    for (const isa::Wait& k : known)
      if (k.semaphore == w.semaphore && k.loop_step == w.loop_step && k.base >= w.base) return;
    std::erase_if(known, [&](const isa::Wait& k) { return k.semaphore == w.semaphore && k.loop_step == w.loop_step; });
    known.push_back(w);
    std::vector<isa::Wait>& waits = waits_[s];
    for (isa::Wait& k : waits) {
      if (k.semaphore == w.semaphore && k.loop_step == w.loop_step) {
        k.base = std::max(k.base, w.base);
        return;
      }
    }
    waits.push_back(w);
  }

  void remember(Object& o, const Record& r) {
    // What this access waited for, or ran after in its own queue, need not be waited for again if the bytes are covered.
    const bool covers = r.writes && !o.rotates && !r.whole;
    std::erase_if(o.records, [&](const Record& x) {
      if (x.step == r.step && x.writes == r.writes && x.low == r.low && x.high == r.high && x.loop_step == r.loop_step)
        return true;
      if (!covers || x.whole || x.loop != r.loop || x.pass != r.pass || x.loop_step != r.loop_step) return false;
      return x.low >= r.low && x.high <= r.high;
    });
    o.records.push_back(r);
  }

  // --- result ---
  void emit() {
    std::array<uint16_t, kQueues> number;
    number.fill(isa::kNoSemaphore);
    uint16_t count = 0;
    for (auto& [step, waits] : waits_) {
      for (isa::Wait& w : waits) {
        uint16_t& n = number[w.semaphore];
        if (n == isa::kNoSemaphore) n = count++;
        w.semaphore = n;
      }
      p_.instructions[steps_[step].value].waits = waits;
    }
    for (const isa::Step& step : steps_) {
      if (step.kind != isa::Step::Kind::instruction) continue;
      isa::Instruction& in = p_.instructions[step.value];
      in.signal = number[static_cast<size_t>(queue_of(in))];
    }
    p_.semaphores = count;
  }

  ProgramBuilder& builder_;
  isa::Program& p_;
  const std::vector<isa::Step>& steps_;
  const ArenaPlan& arena_;
  std::vector<uint32_t> parent_;   // enclosing loop of each step
  std::vector<uint8_t> depth_;     // enclosing loops of each step
  std::vector<int64_t> position_;  // of an instruction in its queue, at iteration 0 of its loops, from 1
  std::vector<std::vector<std::pair<int, int64_t>>> per_iteration_;  // of a loop step: executions by queue
  std::vector<Object> objects_;
  std::vector<std::map<int64_t, std::pair<int64_t, size_t>>> owners_;
  std::array<uint8_t, isa::kMaxLoops> pass_{};
  std::array<std::vector<isa::Wait>, kQueues> waited_;  // by waiting queue, since the last loop border
  std::map<uint32_t, std::vector<isa::Wait>> waits_;
};

}  // namespace

void add_semaphores(ProgramBuilder& builder, const ArenaPlan& arena) { Scheduler(builder, arena).run(); }

}  // namespace neuron::compiler
