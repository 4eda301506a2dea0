// Random graphs: compiled and run on the interpreter (program order and shuffled legal orders), compared with ir::evaluate.
// `--seed N` (with `--theme T` as before) reruns and prints one case.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "claims.h"
#include "compiler/compiler.h"
#include "emulator/executor.h"
#include "ir/graph_generator.h"
#include "isa/disassembler.h"
#include "isa/validator.h"

namespace neuron::compiler {
namespace {

// Orders of execution: 0 = program order, 1.. = shuffled, the last = the fast plan.
constexpr int kPlanOrder = 3;

struct Layout {
  int64_t bytes(const ir::Type& t, const std::vector<int64_t>& strides) const {
    if (t.elements() == 0) return 0;
    int64_t last = 0;
    for (size_t d = 0; d < strides.size(); ++d) last += strides[d] * (t.shape[d] - 1);
    return (last + 1) * static_cast<int64_t>(size_of(t.dtype));
  }
  // Copies between logical row-major order and the layout.
  void move(const ir::Type& t, const std::vector<int64_t>& strides, uint8_t* laid_out, uint8_t* dense, bool to_dense) const {
    const auto unit = static_cast<int64_t>(size_of(t.dtype));
    const int64_t n = t.elements();
    std::vector<int64_t> index(t.shape.size(), 0);
    for (int64_t i = 0; i < n; ++i) {
      int64_t at = 0;
      for (size_t d = 0; d < index.size(); ++d) at += index[d] * strides[d];
      if (to_dense)
        std::memcpy(dense + i * unit, laid_out + at * unit, static_cast<size_t>(unit));
      else
        std::memcpy(laid_out + at * unit, dense + i * unit, static_cast<size_t>(unit));
      for (size_t d = index.size(); d-- > 0;) {
        if (++index[d] < t.shape[d]) break;
        index[d] = 0;
      }
    }
  }
};

Result<std::vector<ir::Literal>> execute(const ir::testing::GeneratedGraph& g, const isa::Program& program, int order) {
  const Layout layout;
  std::vector<std::vector<uint8_t>> memory(program.tensors.size());
  std::vector<emulator::TensorView> views(program.tensors.size());
  for (size_t t = 0; t < program.tensors.size(); ++t) {
    const isa::Tensor& tensor = program.tensors[t];
    std::vector<uint8_t>& m = memory[t];
    m.assign(tensor.bytes + 16, 0xee);
    if (tensor.role == isa::TensorRole::constant)
      std::memcpy(m.data(), program.constants.data() + tensor.constant_offset, tensor.bytes);
    if (tensor.name == "scalars")
      std::memcpy(m.data(), g.scalars.data(), std::min<size_t>(tensor.bytes, g.scalars.size() * 8));
    if (tensor.name.rfind("input", 0) == 0) {
      const auto index = static_cast<size_t>(std::atoi(tensor.name.c_str() + 5));
      ir::Literal copy = g.tensors[index];
      layout.move(copy.type, tensor.strides, m.data(), copy.data.data(), false);
    }
  }
  for (size_t t = 0; t < program.tensors.size(); ++t) {
    const int32_t alias = program.tensors[t].alias_of;
    std::vector<uint8_t>& m = memory[alias >= 0 ? static_cast<size_t>(alias) : t];
    views[t] = {m.data(), program.tensors[t].bytes};
  }
  auto shared = std::make_shared<const isa::Program>(program);
  emulator::InterpreterOptions options;
  if (order > 0) options.shuffle_seed = static_cast<uint64_t>(order);
  auto made = order < kPlanOrder ? emulator::make_interpreter(shared, options) : emulator::make_plan(shared);
  if (!made.ok()) return made.status();
  auto executor = std::move(made).value();
  static emulator::ThreadPool pool(1);
  emulator::Launch launch{.tensors = views, .pool = pool};
  NEURON_RETURN_IF_ERROR(executor->run(launch));
  std::vector<ir::Literal> outputs;
  for (size_t o = 0; o < g.graph.outputs.size(); ++o) {
    const ir::Output& out = g.graph.outputs[o];
    ir::Literal l;
    l.type = g.graph.type(out.value);
    l.data.resize(static_cast<size_t>(l.type.elements()) * size_of(l.type.dtype));
    for (size_t t = 0; t < program.tensors.size(); ++t)
      if (program.tensors[t].name == "output" + std::to_string(o))
        layout.move(l.type, out.strides, views[t].data, l.data.data(), true);
    outputs.push_back(std::move(l));
  }
  return outputs;
}

// "" or what is wrong.
std::string check(const ir::testing::GeneratedGraph& g, const Options& options, bool verbose) {
  auto expected = ir::evaluate(g.graph, g.tensors, g.scalars);
  if (!expected.ok()) return "";
  auto program = compile(g.graph, options);
  if (verbose) std::fprintf(stderr, "%s\n", ir::print(g.graph).c_str());
  if (verbose)
    std::fprintf(stderr, "%s\n", describe_regions(g.graph, options).ok() ? describe_regions(g.graph, options)->c_str() : "");
  if (!program.ok()) return "compile: " + program.status().message();
  if (verbose) std::fprintf(stderr, "%s\n", isa::disassemble(*program).c_str());
  const Status valid = isa::validate(*program);
  if (!valid.ok()) return "validate: " + valid.message();
  for (int order = 0; order <= kPlanOrder; ++order) {
    auto actual = execute(g, *program, order);
    if (!actual.ok()) return "run: " + actual.status().message();
    for (size_t o = 0; o < expected->size(); ++o) {
      const std::string d = ir::testing::difference((*expected)[o], (*actual)[o], g.tolerance[o]);
      if (!d.empty()) return "order " + std::to_string(order) + " output " + std::to_string(o) + ": " + d;
    }
  }
  return "";
}

ir::testing::GeneratorOptions options_of(const std::string& theme) {
  ir::testing::GeneratorOptions go;
  if (theme == "dtypes") {
    go.themes = {"unary", "binary", "compare", "shape", "reduce"};
    go.dtypes = {DType::u8,  DType::i8,  DType::i16,  DType::u16,      DType::u32,   DType::u64,
                 DType::f64, DType::c64, DType::c128, DType::f8e4m3fn, DType::f8e5m2};
  } else if (theme == "large") {  // several tiles and tails
    go.max_elements = 400000;
    go.operators = 5;
    go.themes = {"unary", "binary", "compare", "shape", "reduce", "scan", "index"};
  } else if (theme != "all") {
    go.themes = {theme};
  }
  return go;
}

int graphs_equal = 0;

void run_theme(const std::string& theme, int count, const Options& options = {}) {
  if (neuron::testing::run_everything()) count *= 10;
  for (int seed = 1; seed <= count; ++seed) {
    const ir::testing::GeneratorOptions go = options_of(theme);
    const auto g = ir::testing::GraphGenerator(static_cast<uint64_t>(seed), go).next();
    const std::string problem = check(g, options, false);
    if (problem.empty()) ++graphs_equal;
    if (!problem.empty()) ADD_FAILURE() << "--theme " << theme << " --seed " << seed << ": " << problem.substr(0, 400);
  }
}

constexpr int kSeeds = 40;
TEST(GeneratedGraphs, Unary) { run_theme("unary", kSeeds); }
TEST(GeneratedGraphs, Binary) { run_theme("binary", kSeeds); }
TEST(GeneratedGraphs, Compare) { run_theme("compare", kSeeds); }
TEST(GeneratedGraphs, Shape) { run_theme("shape", kSeeds); }
TEST(GeneratedGraphs, Reduce) { run_theme("reduce", kSeeds); }
TEST(GeneratedGraphs, Scan) { run_theme("scan", kSeeds); }
TEST(GeneratedGraphs, Dot) { run_theme("dot", kSeeds); }
TEST(GeneratedGraphs, Index) { run_theme("index", kSeeds); }
TEST(GeneratedGraphs, Sort) { run_theme("sort", kSeeds); }
TEST(GeneratedGraphs, Random) { run_theme("random", kSeeds); }
TEST(GeneratedGraphs, Attention) { run_theme("attention", kSeeds); }
TEST(GeneratedGraphs, OtherDTypes) { run_theme("dtypes", kSeeds); }
TEST(GeneratedGraphs, Everything) { run_theme("all", 4 * kSeeds); }
TEST(GeneratedGraphs, Large) { run_theme("large", kSeeds / 2); }
TEST(GeneratedGraphs, EverythingUnfused) {
  Options o;
  o.disabled_passes = {"fuse", "select", "canonicalize"};
  run_theme("all", kSeeds, o);
}

int run_one(const char* theme, uint64_t seed) {
  const ir::testing::GeneratorOptions go = options_of(theme);
  const std::string problem = check(ir::testing::GraphGenerator(seed, go).next(), {}, true);
  std::fprintf(stderr, "%s\n", problem.empty() ? "ok" : problem.c_str());
  return problem.empty() ? 0 : 1;
}

}  // namespace
}  // namespace neuron::compiler

int main(int argc, char** argv) {
  const char* theme = "all";
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], "--theme") == 0) theme = argv[i + 1];
    if (std::strcmp(argv[i], "--seed") == 0) {
      for (int k = 1; k + 1 < argc; ++k)
        if (std::strcmp(argv[k], "--theme") == 0) theme = argv[k + 1];
      return neuron::compiler::run_one(theme, std::strtoull(argv[i + 1], nullptr, 10));
    }
  }
  ::testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  neuron::testing::record_claim("compiler_generated_graphs",
                                "generated graphs compiled: program order, shuffled orders and plan equal ir::evaluate",
                                neuron::compiler::graphs_equal, 500);
  return result;
}
