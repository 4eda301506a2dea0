// Every numbered constraint has a program that violates it and nothing else before it.
#include "isa/validator.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "claims.h"
#include "isa/instruction_table.h"
#include "isa/samples.h"

namespace neuron::isa {
namespace {

Program sample(const std::string& name) {
  for (samples::Sample& s : samples::all()) {
    if (s.name == name) return s.program;
  }
  ADD_FAILURE() << "no sample " << name;
  return {};
}

struct Violation {
  const char* id;
  const char* base;
  void (*change)(Program&);
};

Instruction& first(Program& p) { return p.instructions[0]; }

const Violation kGeneralViolations[] = {
    {"program.1", "streaming", [](Program& p) { p.target = "trn1"; }},
    {"program.2", "streaming", [](Program& p) { p.streams.resize(3, p.streams[0]); }},
    {"program.2", "streaming", [](Program& p) { p.streams.clear(); }},
    {"program.3", "streaming", [](Program& p) { p.numerics = "chip"; }},
    {"program.4", "streaming", [](Program& p) { p.instructions.push_back(p.instructions[0]); }},
    {"program.5", "streaming", [](Program& p) { first(p).label = 2; }},
    {"program.6", "streaming", [](Program& p) { first(p).opcode = Opcode::count_; }},
    {"program.6", "streaming", [](Program& p) { first(p).dst.dtype = static_cast<DType>(17); }},
    {"program.6", "streaming", [](Program& p) { p.instructions[1].func = ActFn::count_; }},
    {"program.6", "streaming", [](Program& p) { p.tensors[0].role = static_cast<TensorRole>(9); }},
    {"program.6", "streaming", [](Program& p) { p.streams[0].steps[0].loop_kind = static_cast<LoopKind>(7); }},
    {"tensor.1", "streaming", [](Program& p) { p.tensors[0].strides.pop_back(); }},
    {"tensor.2", "constant", [](Program& p) { p.tensors[0].constant_offset = 89; }},
    {"tensor.2", "constant", [](Program& p) { p.tensors[0].constant_offset = UINT64_MAX; }},
    {"tensor.3", "streaming", [](Program& p) { p.tensors[1].alias_of = 1; }},
    {"tensor.3", "streaming", [](Program& p) { p.tensors[1].alias_of = 2; }},
    {"tensor.3", "streaming", [](Program& p) { p.tensors[0].alias_of = 0; }},
    {"tensor.4", "streaming", [](Program& p) { p.tensors[1].name = "input0"; }},
    {"tensor.4", "streaming", [](Program& p) { p.tensors[1].name = ""; }},
    {"tile.1", "streaming", [](Program& p) { p.tiles[0].partitions = 129; }},
    {"tile.1", "streaming", [](Program& p) { p.tiles[0].space = Space::hbm; }},
    {"tile.1", "streaming", [](Program& p) { p.tiles[0].buffers = 0; }},
    {"tile.2", "streaming", [](Program& p) { p.tiles[1].byte_offset = 212'984 - 4095; }},
    {"tile.2", "streaming", [](Program& p) { p.tiles[1].partition_start = 1; }},
    {"tile.2", "streaming", [](Program& p) { p.tiles[1].byte_offset = UINT64_MAX; }},
    {"tile.2", "resident_matmul", [](Program& p) { p.tiles[2].buffers = 9; }},
    {"tile.3", "streaming", [](Program& p) { p.tiles[1].byte_offset = 4095; }},
    {"tile.4", "streaming", [](Program& p) { p.tiles[0].rotate_level = 1; }},
    {"stream.1", "streaming", [](Program& p) { p.streams[0].steps.pop_back(); }},
    {"stream.1", "streaming", [](Program& p) { p.streams[0].steps[0].match = 2; }},
    {"stream.1", "streaming", [](Program& p) { p.streams[0].steps.back().match = 1; }},
    {"stream.1", "streaming", [](Program& p) { p.streams[0].steps.push_back(p.streams[0].steps.back()); }},
    {"stream.2", "streaming", [](Program& p) { p.streams[0].steps[0].value = 0; }},
    {"stream.3", "streaming", [](Program& p) { p.streams[0].steps[1].value = 3; }},
    {"loop.1", "streaming", [](Program& p) { p.instructions[2].dst.loop_step[0] = 0; }},
    {"access.1", "streaming", [](Program& p) { first(p).dst.object = 2; }},
    {"access.1", "streaming", [](Program& p) { first(p).src0.object = 2; }},
    {"access.1", "streaming", [](Program& p) { p.instructions[1].dst.space = Space::psum; }},
    {"access.2", "streaming", [](Program& p) { first(p).dst.rank = 5; }},
    {"access.2", "streaming", [](Program& p) { first(p).src0.dims[0].count = 0; }},
    {"access.2", "streaming", [](Program& p) { first(p).src0.partitions = 0; }},
    {"access.3", "streaming", [](Program& p) { first(p).src0.offset = 4; }},
    {"access.3", "streaming", [](Program& p) { first(p).src0.offset = -4; }},
    {"access.3", "streaming", [](Program& p) { p.streams[0].steps[0].value = 6; }},
    {"access.3", "streaming", [](Program& p) { p.instructions[1].src0.dims[0].stride = 8; }},
    {"access.3", "streaming", [](Program& p) { first(p).src0.loop_step[0] = INT64_MIN; }},
    {"access.3", "gather", [](Program& p) { first(p).index_bound = 1001; }},
    {"access.3", "gather", [](Program& p) { first(p).index_stride = -256; }},
    {"access.4", "streaming", [](Program& p) { first(p).src0.offset = 2; }},
    {"access.4", "streaming", [](Program& p) { first(p).src0.loop_step[0] += 1; }},
    {"access.5", "streaming", [](Program& p) { p.instructions[1].dst.dims[0].stride = 0; }},
    {"access.5", "streaming", [](Program& p) { p.instructions[2].dst.partition_stride = 0; }},
    {"access.6", "streaming", [](Program& p) { first(p).src0.loop_step[1] = 4; }},
    {"access.7", "streaming", [](Program& p) { p.instructions[1].src0.partition_start = 1; }},
    {"access.7", "streaming", [](Program& p) { first(p).dst.partition_start = UINT32_MAX; }},
    {"access.8", "tensor_reduce_vector", [](Program& p) { p.tiles[0].partition_start = 32; }},
    {"access.9", "tensor_copy_vector",
     [](Program& p) {
       for (Access* a : {&first(p).dst, &first(p).src0}) a->dtype = DType::u8;
       first(p).src0.rank = first(p).dst.rank = 2;
       p.tiles[0].bytes_per_partition = p.tiles[1].bytes_per_partition = 70'000;
       p.tiles[1].byte_offset = 70'000;
       for (Access* a : {&first(p).dst, &first(p).src0}) a->dims = {{{2, 35'000}, {35'000, 1}}};
     }},
    {"access.9", "tensor_copy_vector",
     [](Program& p) {
       for (Access* a : {&first(p).dst, &first(p).src0}) {
         a->dtype = DType::u8;
         a->rank = 1;
         a->dims[0] = {65'536, 1};
       }
       p.tiles[0].bytes_per_partition = p.tiles[1].bytes_per_partition = 70'000;
       p.tiles[1].byte_offset = 70'000;
     }},
    {"access.10", "psum_operands", [](Program& p) { first(p).engine = Engine::gpsimd; }},
    {"access.10", "nc_matmul_f32", [](Program& p) { first(p).dst.space = Space::sbuf; }},
    {"access.10", "streaming", [](Program& p) { p.instructions[1].src0 = p.instructions[0].src0; }},
    {"access.11", "nc_transpose_gpsimd", [](Program& p) { first(p).engine = Engine::vector; }},
    {"access.12", "streaming", [](Program& p) { p.instructions[2].dst.object = 0; }},
    {"loop.2", "scatter",
     [](Program& p) {
       auto& steps = p.streams[0].steps;
       steps = {{Step::Kind::loop, LoopKind::affine, 2, 2}, steps[0], {Step::Kind::end, LoopKind::affine, 0, 0}};
     }},
};

const Violation kInstructionViolations[] = {
    {"instruction.1", "iota", [](Program& p) { first(p).engine = Engine::vector; }},
    {"instruction.2", "streaming", [](Program& p) { first(p).src0 = {}; }},
    {"instruction.2", "streaming", [](Program& p) { first(p).src1 = first(p).src0; }},
    {"instruction.2", "streaming", [](Program& p) { first(p).scalar0 = samples::immediate(1); }},
    {"instruction.3", "tensor_tensor_vector", [](Program& p) { first(p).compute = DType::i64; }},
    {"instruction.3", "tensor_tensor_gpsimd", [](Program& p) { first(p).compute = DType::bf16; }},
    {"instruction.4", "tensor_tensor_vector", [](Program& p) { first(p).op0 = AluOp::power; }},
    {"instruction.4", "tensor_tensor_gpsimd", [](Program& p) { first(p).op0 = AluOp::less; }},
    {"instruction.4", "activation_scalar", [](Program& p) { first(p).func = ActFn::digamma; }},
    {"instruction.5", "tensor_tensor_vector", [](Program& p) { first(p).src1.partitions = 64; }},
    {"instruction.6", "tensor_tensor_vector", [](Program& p) { first(p).src1.dims[0].count = 3; }},
    {"instruction.7", "activation_scalar", [](Program& p) { first(p).scalar1.access.partitions = 32; }},
    {"instruction.8", "streaming", [](Program& p) { first(p).queue = 16; }},
    {"instruction.9", "iota", [](Program& p) { first(p).pattern.loop_step[1] = 1; }},
    {"instruction.9", "nc_matmul_f32", [](Program& p) { first(p).accumulate_levels = 2; }},
    {"instruction.9", "streaming", [](Program& p) { first(p).waits[0].loop_step[3] = 1; }},
    {"instruction.10", "streaming", [](Program& p) { first(p).accumulate = true; }},
    {"sync.1", "streaming", [](Program& p) { first(p).signal = 3; }},
    {"sync.1", "streaming", [](Program& p) { first(p).waits[0].semaphore = 3; }},
    {"sync.2", "streaming", [](Program& p) { first(p).waits[0] = {0, INT64_MAX, {1}}; }},
    {"sync.3", "streaming", [](Program& p) { first(p).waits[0].base = 2; }},
    {"dma_copy.1", "streaming", [](Program& p) { first(p).src0.dims[0].count = 511; }},
    {"dma_copy.1", "dma_copy_hbm_reversed", [](Program& p) { first(p).src0.partitions = 5; }},
    {"dma_copy.2", "gather", [](Program& p) { first(p).index.dtype = DType::u64; }},
    {"dma_copy.3", "gather",
     [](Program& p) {
       first(p).src0 = first(p).dst;
       first(p).src0.object = 1;
       first(p).src0.dims = {{{3, 8}, {64, 0}}};
       first(p).src0.dtype = DType::f32;
       p.tiles[1].bytes_per_partition = 24;
     }},
    {"dma_copy.4", "gather", [](Program& p) { first(p).index.dims[0].count = 2; }},
    {"dma_copy.5", "gather", [](Program& p) { first(p).index_bound = -1; }},
    {"dma_copy.5", "gather", [](Program& p) { first(p).index_stride = 254; }},
    {"dma_transpose.1", "dma_transpose", [](Program& p) { first(p).dst.dtype = DType::f16; }},
    {"dma_transpose.2", "dma_transpose",
     [](Program& p) {
       first(p).src0.partitions = 513;
       p.tensors[0].bytes += 200;
     }},
    {"dma_transpose.3", "dma_transpose", [](Program& p) { first(p).dst.partitions = 99; }},
    {"nc_matmul.1", "nc_matmul_bf16", [](Program& p) { first(p).src1.partitions = 119; }},
    {"nc_matmul.1", "nc_matmul_bf16",
     [](Program& p) {
       first(p).src1.dims[1] = {257, 2};
       p.tiles[1].bytes_per_partition = 1026;
       p.tiles[1].byte_offset = 10'000;
     }},
    {"nc_matmul.2", "nc_matmul_bf16", [](Program& p) { first(p).dst.partitions = 99; }},
    {"nc_matmul.3", "nc_matmul_bf16", [](Program& p) { first(p).src0.dtype = DType::i16; }},
    {"nc_matmul.3", "nc_matmul_f32",
     [](Program& p) { first(p).src0.dtype = DType::bf16, first(p).src0.dims[0].stride = 2; }},
    {"nc_matmul.4", "nc_matmul_f32", [](Program& p) { first(p).dst.dtype = DType::i32; }},
    {"nc_matmul.4", "nc_matmul_f32", [](Program& p) { p.tiles[2].byte_offset = 4; }},
    {"nc_matmul.5", "nc_matmul_f64", [](Program& p) { first(p).dst.dtype = DType::f32; }},
    {"nc_transpose.1", "nc_transpose_tensor", [](Program& p) { first(p).dst.dtype = DType::f16; }},
    {"nc_transpose.2", "nc_transpose_tensor", [](Program& p) { first(p).engine = Engine::vector; }},
    {"nc_transpose.3", "nc_transpose_tensor", [](Program& p) { first(p).dst.partitions = 64; }},
    {"memset.1", "memset_vector",
     [](Program& p) { first(p).scalar0 = samples::per_partition(first(p).dst), first(p).scalar0.access.rank = 0; }},
    {"memset.2", "memset_vector", [](Program& p) { first(p).compute = DType::i32; }},
    {"tensor_tensor.1", "tensor_tensor_vector",
     [](Program& p) {
       for (int t : {1, 2}) p.tiles[t].space = Space::psum;
       first(p).src0.space = first(p).src1.space = Space::psum;
     }},
    {"tensor_scalar.1", "tensor_scalar_vector", [](Program& p) { first(p).scalar1 = {}; }},
    {"tensor_scalar.2", "tensor_scalar_scalar", [](Program& p) { first(p).reverse0 = true; }},
    {"tensor_scalar.2", "tensor_scalar_scalar", [](Program& p) { first(p).op0 = AluOp::add; }},
    {"scalar_tensor_tensor.1", "scalar_tensor_tensor_vector",
     [](Program& p) {
       for (int t : {1, 2}) p.tiles[t].space = Space::psum;
       first(p).src0.space = first(p).src1.space = Space::psum;
     }},
    {"activation.1", "activation_scalar", [](Program& p) { first(p).dst2 = first(p).dst; }},
    {"select.1", "select_vector", [](Program& p) { first(p).scalar1 = {}; }},
    {"select.1", "select_vector", [](Program& p) { first(p).scalar0 = samples::immediate(0); }},
    {"select.2", "select_vector",
     [](Program& p) {
       for (int t : {1, 3}) p.tiles[t].space = Space::psum;
       first(p).src0.space = first(p).src2.space = Space::psum;
     }},
    {"tensor_reduce.1", "tensor_reduce_vector", [](Program& p) { first(p).op0 = AluOp::subtract; }},
    {"tensor_reduce.2", "tensor_reduce_vector", [](Program& p) { first(p).reduce_dims = 4; }},
    {"tensor_reduce.3", "tensor_reduce_vector", [](Program& p) { first(p).reduce_dims = 1; }},
    {"tensor_partition_reduce.1", "tensor_partition_reduce", [](Program& p) { first(p).op0 = AluOp::bypass; }},
    {"tensor_partition_reduce.2", "tensor_partition_reduce", [](Program& p) { first(p).dst.partitions = 2; }},
    {"tensor_tensor_scan.1", "tensor_tensor_scan_one_source",
     [](Program& p) { first(p).src0.rank = first(p).dst.rank = 0; }},
    {"tensor_tensor_scan.2", "tensor_tensor_scan", [](Program& p) { first(p).src1 = {}; }},
    {"tensor_tensor_scan.3", "tensor_tensor_scan",
     [](Program& p) {
       for (int t : {1, 2}) p.tiles[t].space = Space::psum;
       first(p).src0.space = first(p).src1.space = Space::psum;
     }},
    {"bn_stats.1", "bn_stats_bn_aggr",
     [](Program& p) {
       first(p).src0.dims[0].count = 513;
       p.tiles[0].bytes_per_partition = 2052;
       p.tiles[0].byte_offset = 100'000;
     }},
    {"bn_stats.2", "bn_stats_bn_aggr", [](Program& p) { first(p).dst.dims[0].count = 5; }},
    {"bn_aggr.1", "bn_stats_bn_aggr", [](Program& p) { p.instructions[1].src0.dims[0].count = 5; }},
    {"bn_aggr.2", "bn_stats_bn_aggr", [](Program& p) { p.instructions[1].dst.dims[0].count = 1; }},
    {"max8.1", "max8_find_index8_vector", [](Program& p) { first(p).src0.dims[0].count = 7; }},
    {"max8.2", "max8_find_index8_vector", [](Program& p) { first(p).dst.dims[0].count = 7; }},
    {"find_index8.1", "max8_find_index8_vector", [](Program& p) { p.instructions[1].src1.dims[0].count = 7; }},
    {"find_index8.2", "max8_find_index8_vector", [](Program& p) { p.instructions[1].dst.dtype = DType::i32; }},
    {"random_bits.1", "random_bits", [](Program& p) { first(p).dst.dtype = DType::f32; }},
    {"scatter_reduce.1", "scatter_reduce", [](Program& p) { first(p).op0 = AluOp::subtract; }},
    {"scatter_reduce.2", "scatter_reduce", [](Program& p) { first(p).src0.dims[1].count = 63; }},
    {"scatter_reduce.3", "scatter_reduce", [](Program& p) { first(p).index.dtype = DType::f32; }},
    {"scatter_reduce.3", "scatter_reduce", [](Program& p) { first(p).index.dims[0].count = 2; }},
    {"scatter_reduce.4", "scatter_reduce", [](Program& p) { first(p).index_stride = 2; }},
    {"top_k.1", "top_k", [](Program& p) { first(p).src0.dims[0].count = 9; }},
    {"top_k.2", "top_k", [](Program& p) { first(p).dst2.dtype = DType::u64; }},
};

TEST(Validator, EveryConstraintIsEnforcedAndCited) {
  std::set<std::string> seen;
  std::vector<Violation> violations(std::begin(kGeneralViolations), std::end(kGeneralViolations));
  violations.insert(violations.end(), std::begin(kInstructionViolations), std::end(kInstructionViolations));
  for (const Violation& v : violations) {
    const std::string id = v.id;
    Program p = sample(v.base);
    ASSERT_TRUE(validate(p).ok()) << v.base << ": " << validate(p).message();
    v.change(p);
    const Status status = validate(p);
    ASSERT_FALSE(status.ok()) << v.id << " on " << v.base << " was accepted";
    EXPECT_EQ(status.message().substr(0, id.size() + 1), id + ":") << v.base << ": " << status.message();
    EXPECT_EQ(status.code(), Code::invalid_argument);
    EXPECT_NE(status.message().find(find_constraint(v.id)->text), std::string::npos);
    seen.insert(id);
  }
  std::set<std::string> all;
  for (const Constraint& c : general_constraints()) all.insert(std::string(c.id));
  for (const InstructionInfo& i : instruction_table()) {
    for (const Constraint& c : i.constraints) all.insert(std::string(c.id));
  }
  for (const std::string& id : all) EXPECT_TRUE(seen.count(id)) << "no program violates " << id;
  testing::record_claim("isa_constraints", "constraints with a violating program", static_cast<int64_t>(seen.size()),
                        static_cast<int64_t>(all.size()));
}

TEST(Validator, MessagesNameInstructionOperatorAndValues) {
  Program p = sample("streaming");
  first(p).src0.offset = 4;
  EXPECT_EQ(validate(p).message(),
            "access.3: instruction 0 (dma_copy of aten::sample): src0: tensor input0 of 1310720 bytes, touched from byte 4 "
            "to 1310723; rule: " +
                std::string(find_constraint("access.3")->text));
}

TEST(Validator, TilesMayShareBytesWhenTheirUsesDoNotInterleave) {
  samples::Builder b;
  const uint32_t one = b.tile(Space::sbuf, 128, 64), two = b.tile(Space::sbuf, 128, 64),
                 three = b.tile(Space::sbuf, 128, 64);
  const auto copy = [&](uint32_t to, uint32_t from) {
    Instruction& i = b.add(Opcode::tensor_copy, Engine::vector);
    i.dst = b.on(to, DType::f32, 128, {16});
    i.src0 = b.on(from, DType::f32, 128, {16});
  };
  copy(two, one);
  copy(three, two);
  b.program.tiles[three].byte_offset = b.program.tiles[one].byte_offset;
  EXPECT_TRUE(validate(b.program).ok()) << validate(b.program).message();
  copy(two, one);  // one is still in use after three was written
  EXPECT_EQ(validate(b.program).message().substr(0, 7), "tile.3:");
  b.program.tiles[three].partition_start = 64;  // other partitions: nothing is shared
  b.program.tiles[three].partitions = 64;
  b.program.instructions[1].dst.partitions = b.program.instructions[1].src0.partitions = 64;
  b.program.tiles[one].partitions = 64;
  for (int n : {0, 2}) b.program.instructions[n].dst.partitions = b.program.instructions[n].src0.partitions = 64;
  EXPECT_TRUE(validate(b.program).ok()) << validate(b.program).message();
}

TEST(Validator, MatmulMayWalkFromBankToBankButNotAcross) {
  Program p = sample("resident_matmul");
  EXPECT_TRUE(validate(p).ok());
  p.tiles[2].buffers = 1;
  p.tiles[2].bytes_per_partition = 16'384;
  first(p).dst.loop_step[0] = 2048;  // four iterations, a bank each
  EXPECT_TRUE(validate(p).ok()) << validate(p).message();
  first(p).dst.loop_step[0] = 1024;
  EXPECT_EQ(validate(p).message().substr(0, 12), "nc_matmul.4:");
  first(p).src1.dims[0].count = first(p).dst.dims[0].count = 256;  // half a bank at a time
  EXPECT_TRUE(validate(p).ok()) << validate(p).message();
}

TEST(Validator, AnIndexBoundOfZeroTouchesNothing) {
  Program p = sample("gather");
  first(p).index_bound = 0;
  p.tensors[0].bytes = 0;
  EXPECT_TRUE(validate(p).ok()) << validate(p).message();
}

// Random numbers in random fields: the validator answers, whatever it is given, without overflow (sanitizers watch).
TEST(Validator, ArbitraryProgramsAreAnsweredCleanly) {
  const std::vector<samples::Sample> bases = samples::all();
  std::mt19937_64 random(7);
  static constexpr int64_t kExtremes[] = {0, 1, -1, 2, 127, 128, 255, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 4096};
  const auto number = [&] {
    return random() % 3 ? kExtremes[random() % std::size(kExtremes)] : static_cast<int64_t>(random());
  };
  const auto corrupt_access = [&](Access& a) {
    switch (random() % 8) {
      case 0:
        a.space = static_cast<Space>(number());
        break;
      case 1:
        a.object = static_cast<uint32_t>(number());
        break;
      case 2:
        a.dtype = static_cast<DType>(number());
        break;
      case 3:
        a.rank = static_cast<uint8_t>(number());
        break;
      case 4:
        a.partitions = static_cast<uint32_t>(number()), a.partition_start = static_cast<uint32_t>(number());
        break;
      case 5:
        a.offset = number(), a.partition_stride = number();
        break;
      case 6:
        a.dims[random() % kMaxFreeDims] = {static_cast<uint32_t>(number()), number()};
        break;
      default:
        a.loop_step[random() % kMaxLoops] = number();
        break;
    }
  };
  int rejected = 0;
  for (int n = 0; n < 20'000; ++n) {
    Program p = bases[random() % bases.size()].program;
    for (size_t edits = 1 + random() % 4; edits > 0; --edits) {
      Instruction& i = p.instructions[random() % p.instructions.size()];
      Access* accesses[] = {&i.dst, &i.dst2, &i.src0, &i.src1, &i.src2, &i.index, &i.scalar0.access, &i.scalar1.access};
      switch (random() % 8) {
        case 0:
          i.opcode = static_cast<Opcode>(random() % 30);
          break;
        case 1:
          i.engine = static_cast<Engine>(random() % 8);
          break;
        case 2:
          i.index_bound = number(), i.index_stride = number();
          break;
        case 3:
          if (!p.tiles.empty()) p.tiles[random() % p.tiles.size()].bytes_per_partition = static_cast<uint32_t>(number());
          break;
        case 4:
          i.waits.push_back({static_cast<uint16_t>(number()), number(), {number()}});
          break;
        case 5:
          p.streams[0].steps[random() % p.streams[0].steps.size()].value = static_cast<uint32_t>(number());
          break;
        default:
          corrupt_access(*accesses[random() % std::size(accesses)]);
          break;
      }
    }
    const Status status = validate(p);
    if (!status.ok()) {
      ++rejected;
      EXPECT_FALSE(status.message().empty());
    }
  }
  EXPECT_GT(rejected, 1000);
}

}  // namespace
}  // namespace neuron::isa
