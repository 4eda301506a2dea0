// Damaged executables load or fail cleanly, and what loads runs or fails cleanly: nothing crashes, nothing hangs.
//
// Two kinds of damage: bytes of a container (mostly caught by its checksum), and fields of a program that is serialised
// again with a right checksum, so that the validator and the executors meet every kind of nonsense. --all: ten times as
// many.
#include <gtest/gtest.h>

#include <cstring>
#include <iostream>
#include <map>

#include "abi/nrt.h"
#include "abi/nrtx.h"
#include "claims.h"
#include "emulator/program_generator.h"
#include "isa/container.h"

namespace neuron::emulator::testing {
namespace {

constexpr int kLeast = 2000;
constexpr uint64_t kMostTensorBytes = 16ull << 20;
constexpr int kInterruptCalls = 200;

int mutations() { return kLeast * (neuron::testing::run_everything() ? 10 : 1); }

std::vector<uint8_t> mutate_bytes(std::vector<uint8_t> bytes, Random& r) {
  switch (r.below(4)) {
    case 0:
      bytes.resize(r.below(bytes.size()));
      break;
    case 1:
      bytes.insert(bytes.end(), r.below(100), static_cast<uint8_t>(r.next()));
      break;
    default:
      for (uint64_t n = 1 + r.below(8); n > 0; --n) bytes[r.below(bytes.size())] ^= static_cast<uint8_t>(1u << r.below(8));
  }
  return bytes;
}

int64_t strange_number(Random& r, int64_t old) {
  switch (r.below(8)) {
    case 0:
      return 0;
    case 1:
      return -old;
    case 2:
      return old + 1;
    case 3:
      return static_cast<int64_t>(r.next());
    case 4:
      return INT64_MAX - static_cast<int64_t>(r.below(4));
    case 5:
      return INT64_MIN + static_cast<int64_t>(r.below(4));
    case 6:
      return old * 2;
    default:
      return old + static_cast<int64_t>(r.below(256)) - 128;
  }
}

void mutate_access(isa::Access& a, Random& r) {
  switch (r.below(10)) {
    case 0:
      a.object = static_cast<uint32_t>(strange_number(r, a.object));
      break;
    case 1:
      a.dtype = static_cast<DType>(r.below(kDTypeCount + 1));
      break;
    case 2:
      a.rank = static_cast<uint8_t>(r.below(6));
      break;
    case 3:
      a.partitions = static_cast<uint32_t>(strange_number(r, a.partitions));
      break;
    case 4:
      a.partition_start = static_cast<uint32_t>(strange_number(r, a.partition_start));
      break;
    case 5:
      a.partition_stride = strange_number(r, a.partition_stride);
      break;
    case 6:
      a.offset = strange_number(r, a.offset);
      break;
    case 7:
      a.dims[r.below(4)].count = static_cast<uint32_t>(strange_number(r, a.dims[0].count));
      break;
    case 8: {
      isa::Dim& d = a.dims[r.below(4)];
      d.stride = strange_number(r, d.stride);
      break;
    }
    default: {
      int64_t& step = a.loop_step[r.below(isa::kMaxLoops)];
      step = strange_number(r, step);
    }
  }
}

void mutate_instruction(isa::Instruction& i, Random& r) {
  isa::Access* const accesses[] = {&i.dst,  &i.dst2,  &i.src0,           &i.src1,
                                   &i.src2, &i.index, &i.scalar0.access, &i.scalar1.access};
  switch (r.below(12)) {
    case 0:
      i.opcode = static_cast<isa::Opcode>(r.below(static_cast<uint64_t>(isa::Opcode::count_) + 1));
      break;
    case 1:
      i.engine = static_cast<isa::Engine>(r.below(8));
      break;
    case 2:
      i.compute = static_cast<DType>(r.below(kDTypeCount));
      break;
    case 3:
      i.op0 = static_cast<isa::AluOp>(r.below(static_cast<uint64_t>(isa::AluOp::count_)));
      break;
    case 4:
      i.func = static_cast<isa::ActFn>(r.below(static_cast<uint64_t>(isa::ActFn::count_)));
      break;
    case 5:
      i.index_bound = strange_number(r, i.index_bound);
      break;
    case 6:
      i.index_stride = strange_number(r, i.index_stride);
      break;
    case 7:
      i.reduce_dims = static_cast<uint8_t>(r.below(6));
      break;
    case 8:
      i.signal = static_cast<uint16_t>(strange_number(r, i.signal));
      break;
    case 9:
      if (!i.waits.empty()) i.waits[r.below(i.waits.size())].base = strange_number(r, 1);
      break;
    default:
      mutate_access(*accesses[r.below(8)], r);
  }
}

void mutate_program(isa::Program& p, Random& r) {
  switch (r.below(8)) {
    case 0: {
      isa::Tensor& t = p.tensors[r.below(p.tensors.size())];
      if (r.chance(2))
        t.bytes = static_cast<uint64_t>(strange_number(r, static_cast<int64_t>(t.bytes)));
      else if (r.chance(2))
        t.alias_of = static_cast<int32_t>(strange_number(r, t.alias_of));
      else
        t.constant_offset = static_cast<uint64_t>(strange_number(r, static_cast<int64_t>(t.constant_offset)));
      break;
    }
    case 1: {
      if (p.tiles.empty()) break;
      isa::Tile& t = p.tiles[r.below(p.tiles.size())];
      uint32_t* const fields[] = {&t.partitions, &t.bytes_per_partition, &t.buffers, &t.rotate_level, &t.partition_start};
      uint32_t& field = *fields[r.below(5)];
      field = static_cast<uint32_t>(strange_number(r, field));
      if (r.chance(4)) t.byte_offset = static_cast<uint64_t>(strange_number(r, static_cast<int64_t>(t.byte_offset)));
      break;
    }
    case 2: {
      isa::Step& s = p.streams[0].steps[r.below(p.streams[0].steps.size())];
      if (r.chance(2))
        s.value = static_cast<uint32_t>(strange_number(r, s.value));
      else if (r.chance(2))
        s.match = static_cast<uint32_t>(strange_number(r, s.match));
      else
        s.loop_kind = static_cast<isa::LoopKind>(r.below(3));
      break;
    }
    default:
      mutate_instruction(p.instructions[r.below(p.instructions.size())], r);
  }
}

int stop_after(void* calls) { return ++*static_cast<int*>(calls) > kInterruptCalls; }

// Runs a loaded model with tensors of the sizes it asks for; the status, or NRT_RESOURCE when they are too large.
NRT_STATUS execute(nrt_model_t* model) {
  nrt_tensor_info_array_t* info = nullptr;
  if (nrt_get_model_tensor_info(model, &info) != NRT_SUCCESS) return NRT_FAILURE;
  nrt_tensor_set_t* sets[2] = {};
  std::vector<nrt_tensor_t*> tensors;
  for (auto& set : sets) nrt_allocate_tensor_set(&set);
  NRT_STATUS status = NRT_SUCCESS;
  for (uint64_t n = 0; n < info->tensor_count && status == NRT_SUCCESS; ++n) {
    const nrt_tensor_info_t& t = info->tensor_array[n];
    nrt_tensor_t* tensor = nullptr;
    status = t.size > kMostTensorBytes ? NRT_RESOURCE
                                       : nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, t.size, t.name, &tensor);
    if (status != NRT_SUCCESS) break;
    tensors.push_back(tensor);
    status = nrt_add_tensor_to_tensor_set(sets[t.usage == NRT_TENSOR_USAGE_OUTPUT], t.name, tensor);
  }
  if (status == NRT_SUCCESS) {
    int calls = 0;
    nrtx_set_interrupt_check(stop_after, &calls);
    status = nrt_execute(model, sets[0], sets[1]);
    nrtx_set_interrupt_check(nullptr, nullptr);
  }
  for (auto& set : sets) nrt_destroy_tensor_set(&set);
  for (nrt_tensor_t*& t : tensors) nrt_tensor_free(&t);
  nrt_free_model_tensor_info(info);
  return status;
}

TEST(MutatedContainers, LoadOrFailCleanly) {
  ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
  const std::vector<Cell> cells = all_cells();
  std::map<std::string, int> outcomes;
  Random r(20240607);
  int loaded = 0;
  for (int n = 0; n < mutations(); ++n) {
    SCOPED_TRACE("mutation " + std::to_string(n));
    Generated g = generate(cells[r.below(cells.size())], 1 + r.below(1000));
    std::vector<uint8_t> bytes;
    if (n % 4 == 0) {
      bytes = mutate_bytes(isa::serialize(g.program), r);
    } else {
      for (uint64_t k = 1 + r.below(2); k > 0; --k) mutate_program(g.program, r);
      bytes = isa::serialize(g.program);
    }
    nrtx_set_executor(n % 2 ? "plan" : n % 4 ? "interpreter" : "shuffled:5");
    nrt_model_t* model = nullptr;
    const NRT_STATUS status = nrt_load(bytes.data(), bytes.size(), 0, 1, &model);
    ++outcomes[std::string("load ") + nrt_get_status_as_str(status)];
    if (status != NRT_SUCCESS) {
      EXPECT_EQ(model, nullptr);
      EXPECT_TRUE(status == NRT_INVALID || status == NRT_UNSUPPORTED_NEFF_VERSION || status == NRT_RESOURCE)
          << nrtx_last_error();
      EXPECT_NE(nrtx_last_error()[0], 0);
      continue;
    }
    ++loaded;
    const NRT_STATUS executed = execute(model);
    ++outcomes[std::string("execute ") + nrt_get_status_as_str(executed)];
    EXPECT_NE(executed, NRT_FAILURE) << nrtx_last_error();
    EXPECT_EQ(std::string(nrtx_last_error()).find("access to bytes"), std::string::npos) << nrtx_last_error();
    EXPECT_EQ(nrt_unload(model), NRT_SUCCESS);
  }
  for (const auto& [what, count] : outcomes) std::cout << what << ": " << count << "\n";
  EXPECT_GT(loaded, mutations() / 20) << "too few got past the loader to say anything about execution";
  nrt_vnc_memory_stats_t stats{};
  EXPECT_EQ(nrt_get_vnc_memory_stats(0, &stats, sizeof stats, nullptr), NRT_SUCCESS);
  EXPECT_LT(stats.bytes_used, 1ull << 30);
  nrt_close();
  neuron::testing::record_claim("emulator_mutations", "mutated containers load or fail cleanly", mutations(), kLeast);
}

}  // namespace
}  // namespace neuron::emulator::testing
