// Writes graphs for the StableHLO oracle: FOLDER/<n>.mlir (a module without arguments: inputs are constants, results are
// f32, f64, i64 or u64) and FOLDER/<n>.<k>.bin (what evaluate() gives for result k), with one line per graph in
// FOLDER/index.txt:
// "<n> seed <seed> <type>:<tolerance> ...". Seed 0: the tables of element-wise operators; others are generated.
//
//   ir_oracle FOLDER COUNT [FIRST_SEED]
#include <cmath>
#include <fstream>
#include <iostream>
#include <limits>

#include "ir/element.h"
#include "ir/graph_generator.h"
#include "ir/op_info.h"

namespace neuron::ir::testing {
namespace {

// The graph with parameters replaced by constants, outputs converted to types that every tool reads, and a copy in front of
// each scatter (the reference interpreter overwrites a scatter's operand).
Graph closed(const GeneratedGraph& g) {
  Graph graph;
  graph.name = g.graph.name;
  Builder b(graph);
  std::vector<int32_t> index(g.graph.nodes.size());
  const auto mapped = [&](Value v) { return Value{index[v.node], v.result}; };
  for (size_t i = 0; i < g.graph.nodes.size(); ++i) {
    Node node = g.graph.nodes[i];
    node.label = 0;
    if (node.op == Op::parameter) {
      const auto a = std::get<ParameterAttrs>(node.attrs);
      ConstantAttrs constant;
      if (a.kind == ParameterAttrs::Kind::tensor) {
        constant.data = g.tensors[a.index].data;
      } else {
        const auto* bytes = reinterpret_cast<const uint8_t*>(&g.scalars[a.index]);
        constant.data.assign(bytes, bytes + size_of(node.types[0].dtype));
      }
      node.op = Op::constant;
      node.attrs = std::move(constant);
    }
    for (Value& v : node.operands) v = mapped(v);
    if (node.op == Op::scatter) node.operands[0] = b.reverse(node.operands[0], {});
    index[i] = static_cast<int32_t>(graph.nodes.size());
    graph.nodes.push_back(std::move(node));
  }
  for (const Output& o : g.graph.outputs) {
    const Value v = mapped(o.value);
    const DType t = b.type(v).dtype;
    const auto add = [&](Value x) { b.output(x, contiguous_strides(b.type(x).shape)); };
    if (is_complex(t)) {
      add(b.unary(Op::real, v));
      add(b.unary(Op::imag, v));
    } else if (is_floating(t)) {
      add(b.convert(v, t == DType::f64 ? DType::f64 : DType::f32));
    } else {
      add(b.convert(v, is_unsigned_integer(t) ? DType::u64 : DType::i64));
    }
  }
  return graph;
}

class Writer {
 public:
  explicit Writer(std::string folder) : folder_(std::move(folder)), index_(folder_ + "/index.txt") {}

  bool write(const GeneratedGraph& g) {
    const Graph graph = closed(g);
    const auto results = evaluate(graph, {}, {});
    if (!results.ok()) {
      std::cerr << "seed " << g.seed << ": " << results.status().message() << "\n" << print(g.graph);
      return false;
    }
    coverage_.add(g.graph);
    const std::string name = folder_ + "/" + std::to_string(count_);
    std::ofstream(name + ".mlir") << print_stablehlo(graph);
    index_ << count_++ << " seed " << g.seed;
    size_t k = 0;
    for (size_t i = 0; i < g.graph.outputs.size(); ++i) {
      const int parts = is_complex(g.graph.type(g.graph.outputs[i].value).dtype) ? 2 : 1;
      for (int part = 0; part < parts; ++part, ++k) {
        const Literal& r = (*results)[k];
        std::ofstream(name + "." + std::to_string(k) + ".bin", std::ios::binary)
            .write(reinterpret_cast<const char*>(r.data.data()), static_cast<std::streamsize>(r.data.size()));
        index_ << " " << to_string(r.type) << ":" << 2 * g.tolerance[i];  // both sides may be off
      }
    }
    index_ << "\n";
    return true;
  }
  const Coverage& coverage() const { return coverage_; }

 private:
  std::string folder_;
  std::ofstream index_;
  int count_ = 0;
  Coverage coverage_;
};

double table_tolerance(DType t) {
  switch (t) {
    case DType::f64:
    case DType::c128:
      return 1e-11;
    case DType::f32:
    case DType::c64:
      return 3e-5;
    case DType::f16:
      return 0.02;
    case DType::bf16:
      return 0.15;
    default:
      return 0;
  }
}

// Arguments of float functions: their domain, then what is special.
std::vector<double> arguments(Op op) {
  std::vector<double> v;
  const bool unit = op == Op::asin || op == Op::acos || op == Op::atanh;
  for (double x = unit ? -0.875 : -3.5; x <= (unit ? 0.9 : 3.6); x += unit ? 0.125 : 0.25) v.push_back(x);
  if (op == Op::acosh || op == Op::log || op == Op::log2 || op == Op::log10 || op == Op::sqrt || op == Op::rsqrt) {
    for (double& x : v) x = std::abs(x) + 1;
  }
  if (op == Op::log_plus_one || op == Op::reciprocal) {
    for (double& x : v) x = std::abs(x) + 0.125;
  }
  const double inf = std::numeric_limits<double>::infinity();
  const bool total = op == Op::negate || op == Op::abs || op == Op::sign || op == Op::floor || op == Op::ceil ||
                     op == Op::trunc || op == Op::round_nearest_even || op == Op::round_nearest_afz || op == Op::is_finite ||
                     op == Op::is_nan || op == Op::is_inf || op == Op::tanh || op == Op::logistic || op == Op::exponential ||
                     op == Op::angle;
  if (total) v.insert(v.end(), {0.0, -0.0, inf, -inf, std::numeric_limits<double>::quiet_NaN(), 0.5, 1.5, 2.5, -2.5});
  return v;
}

Value table_constant(Builder& b, DType t, const std::vector<double>& values, double scale) {
  std::vector<uint8_t> data(values.size() * size_of(t));
  for (size_t i = 0; i < values.size(); ++i) {
    uint8_t* p = data.data() + i * size_of(t);
    const double x = values[i] * scale;
    if (is_complex(t)) {
      const double y = values[values.size() - 1 - i];  // infinite parts: implementations differ
      store(t, p, Complex(std::isfinite(x) ? x : 1, std::isfinite(y) ? y * 0.75 + 0.25 : 2));
    } else {
      store(t, p, x);
    }
  }
  return b.constant({t, {static_cast<int64_t>(values.size())}}, std::move(data));
}

// One graph per element-wise operator and dtype.
std::vector<GeneratedGraph> tables() {
  std::vector<GeneratedGraph> all;
  const DType dtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::c64, DType::i32, DType::i8, DType::u8};
  for (int i = 0; i < static_cast<int>(Op::count_); ++i) {
    const Op op = static_cast<Op>(i);
    const Form form = info(op).form;
    if (form == Form::other || op == Op::not_) continue;
    for (DType t : dtypes) {
      if (!in_domain(t, info(op).domain)) continue;
      GeneratedGraph g;
      g.graph.name = std::string(name_of(op)) + "_" + std::string(neuron::name_of(t));
      Builder b(g.graph);
      std::vector<double> values = arguments(op);
      if (is_integer(t)) {
        for (double& x : values) x = std::isfinite(x) ? std::round(x * 3) + (is_signed_integer(t) ? 0 : 14) : 5;
      }
      // Powers, logarithms, .. of complex numbers stay away from their cuts.
      const Value x = table_constant(b, t, values, op == Op::power ? 0.25 : 1);
      Value v;
      if (form == Form::binary) {
        std::vector<double> others(values.rbegin(), values.rend());
        for (double& y : others)
          y = is_integer(t) ? (y == 0 ? 3 : op == Op::power || op >= Op::shift_left ? std::abs(y) : y) : y + 0.0625;
        Value base = x;
        if (op == Op::power && is_floating(t)) base = b.binary(Op::add, b.unary(Op::abs, x), b.splat(b.type(x), 0.25));
        v = b.binary(op, base, table_constant(b, t, others, 1));
      } else {
        v = b.unary(op, x);
      }
      b.output(v, contiguous_strides(b.type(v).shape));
      g.tolerance = {table_tolerance(b.type(v).dtype) * (op == Op::power || op == Op::exponential ? 40 : 1)};
      if (op == Op::floor_divide || op == Op::python_remainder) g.tolerance = {0};
      all.push_back(std::move(g));
    }
  }
  return all;
}

int write_cases(const std::string& folder, int count, uint64_t first_seed) {
  GeneratorOptions options;
  options.max_elements = 256;  // the reference interpreter is slow
  options.operators = 8;
  options.empty_tensors = false;  // it aborts on some
  options.dtypes = {DType::f32, DType::bf16, DType::f16, DType::f64,    DType::i64,
                    DType::i32, DType::i8,   DType::u8,  DType::boolean};
  GraphGenerator generator(first_seed, options);
  Writer writer(folder);
  for (const GeneratedGraph& g : tables()) {
    if (!writer.write(g)) return 1;
  }
  for (int n = 0; n < count; ++n) {
    if (!writer.write(generator.next())) return 1;
  }
  const Coverage& coverage = writer.coverage();
  std::cout << coverage.operators() << " operators, " << coverage.pairs() << " operator x dtype\n" << coverage.table();
  return 0;
}

}  // namespace
}  // namespace neuron::ir::testing

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: ir_oracle FOLDER COUNT [FIRST_SEED]\n";
    return 2;
  }
  return neuron::ir::testing::write_cases(argv[1], std::atoi(argv[2]), argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1);
}
