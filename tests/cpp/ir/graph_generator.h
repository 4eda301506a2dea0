// Seeded random graphs for tests: typed, verified, with inputs and with a bound on how far two correct executions may
// differ.
//
// Every value carries the largest magnitude it can have and an error bound, both derived operator by operator; the generator
// only takes an operator where they stay small, and discontinuous operators (comparisons, rounding, sorting, arg-reductions)
// only on values that every execution computes exactly. A mismatch beyond Output::tolerance is therefore a defect, not
// noise.
#pragma once

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ir/builder.h"

namespace neuron::ir::testing {

struct GeneratorOptions {
  int operators = 12;           // about how many, besides leaves
  int64_t max_elements = 2048;  // of one value
  int max_rank = 4;
  std::vector<DType> dtypes{DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::boolean};
  std::vector<std::string> themes;  // empty: all. unary binary compare shape reduce scan dot index sort random attention
  bool strided_border = true;       // parameters and outputs in permuted layouts
  bool empty_tensors = true;        // sizes of 0 occur
};

struct GeneratedGraph {
  uint64_t seed = 0;  // GraphGenerator(seed, options).next() gives this graph again
  Graph graph;
  std::vector<Literal> tensors;
  std::vector<uint64_t> scalars;
  std::vector<double> tolerance;  // per output, absolute; 0 = bit for bit
};

class GraphGenerator {
 public:
  GraphGenerator(uint64_t seed, GeneratorOptions options = {});
  GeneratedGraph next();

 private:
  struct Known {  // about one Value
    double magnitude = 0, error = 0;
    bool exact() const { return error == 0; }
  };

  // random choices
  int64_t pick(int64_t low, int64_t high);  // both included
  bool chance(double probability);
  DType random_dtype();
  std::vector<int64_t> random_shape();
  std::vector<int64_t> permuted_strides(const std::vector<int64_t>& shape);

  // leaves
  Value input(const Type& type);
  Value index_constant(const std::vector<int64_t>& shape, int64_t limit);
  Value any();                               // some earlier value, or a new input
  Value any_of(uint8_t domain, bool exact);  // with a dtype in the domain
  Value like(const Type& type, bool exact);  // a value of exactly this type, made if needed

  // one operator of a theme; false if the drawn operands do not suit it
  bool add_unary();
  bool add_binary();
  bool add_integer_division(Value a);
  bool add_compare();
  bool add_shape();
  bool add_cut(Value x);
  bool add_dynamic(Value x);
  bool add_reduce();
  bool add_scan();
  bool add_dot();
  bool add_index();
  bool add_sort();
  bool add_random();
  bool add_attention();
  bool add_convert();

  void note(Value v, Known known);  // registers every result of the node for later use
  Known& known(Value v);
  static double epsilon_of(DType dtype);
  double round_error(Value v, double magnitude) const;  // of storing a number of that size in v's dtype
  Value smooth_positive(Value x);                       // |x| + 0.5

  uint64_t seed_;
  GeneratorOptions options_;
  std::mt19937_64 random_;
  GeneratedGraph out_;
  std::unique_ptr<Builder> builder_;
  std::map<std::pair<int32_t, int32_t>, Known> known_;
  std::vector<Value> pool_;
};

// What a set of graphs exercised: operator x dtype -> count.
class Coverage {
 public:
  void add(const Graph& graph);
  size_t pairs() const { return counts_.size(); }
  size_t operators() const;
  std::string table() const;

 private:
  std::map<std::pair<std::string, std::string>, int> counts_;
};

// "" when every element is within `tolerance` (NaN equals NaN), else the first difference in words.
std::string difference(const Literal& want, const Literal& got, double tolerance);

}  // namespace neuron::ir::testing
