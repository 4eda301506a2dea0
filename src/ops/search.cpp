// searchsorted, bucketize, isin.
//
// Not supported: bool and complex numbers (PyTorch refuses them).
#include "ops/search.h"

#include <bit>
#include <functional>

#include "ops/indexing.h"

namespace neuron::ops {

Val look_up(const Val& rows, const Val& places) {
  const Val inside = minimum(places, like_int(places, rows.size(-1) - 1));
  return rows.rank() == 1 ? take_slices(rows, inside, 0) : gather_elements(rows, inside, rows.rank() - 1);
}

// Elements of the rows that every value is compared with before the search: a comparison is an operation of a fused loop, a
// probe a gather.
constexpr int64_t kPivots = 32;

static Val element(const Val& rows, int64_t place) {
  const Val x = slice(rows, rows.rank() - 1, place, place + 1);
  return rows.rank() == 1 ? reshape(x, {}) : x;
}

// `above(element)`: whether the search goes on to the left of an element. Pivots end sections of equal length (the last one
// may be shorter); the number of those that are not above the value says in which section to search.
static Val first_above(const Val& rows, const Val& values, const std::function<Val(const Val&)>& above) {
  const int64_t n = rows.size(-1), section = (n + kPivots - 1) / kPivots;
  const DType t = n < (int64_t{1} << 30) ? DType::i32 : DType::i64;
  Val low = full_int(values.builder(), t, values.shape(), 0);
  if (values.elements() == 0 || n == 0) return low;
  for (int64_t pivot = section - 1; pivot < n; pivot += section) low = low + convert(!above(element(rows, pivot)), t);
  if (section == 1) return low;
  low = low * like_int(low, section);
  Val high = minimum(low + like_int(low, section - 1), like_int(low, n));
  for (int step = 0; step < static_cast<int>(std::bit_width(static_cast<uint64_t>(section - 1))); ++step) {
    const Val middle = binary(ir::Op::shift_right_logical, low + high, like_int(low, 1));
    const Val left = above(look_up(rows, middle)), found = eq(low, high);
    low = where(left | found, low, middle + 1);
    high = where(left, middle, high);
  }
  return low;
}

Val search_sorted(const Val& rows, const Val& values, Side side) {
  return first_above(rows, values, [&](const Val& x) { return side == Side::left ? ge(x, values) : gt(x, values); });
}

Val search_sorted_nan_last(const Val& rows, const Val& values, Side side) {
  return first_above(rows, values, [&](const Val& x) { return side == Side::left ? !lt(x, values) : !le(x, values); });
}

namespace {

// --- searchsorted and bucketize ---

std::optional<Metas> search_result(const Lowering& l, std::string_view rows, std::string_view values) {
  if (l.common() == DType::boolean) return std::nullopt;
  const Shape &sequence = l.meta(rows).shape, shape = l.tensor(values) ? l.meta(values).shape : Shape{};
  if (sequence.empty()) return std::nullopt;
  if (sequence.size() > 1) {
    if (sequence.size() != shape.size()) return std::nullopt;
    if (!std::equal(sequence.begin(), sequence.end() - 1, shape.begin())) return std::nullopt;
  }
  const std::string side = l.text("side");
  if ((side == "left" && l.flag("right")) || !(side.empty() || side == "left" || side == "right")) return std::nullopt;
  if (l.tensor("sorter") && (l.meta("sorter").shape != sequence || l.meta("sorter").dtype != DType::i64)) {
    return std::nullopt;
  }
  return one(contiguous_meta(l.flag("out_int32") ? DType::i32 : DType::i64, shape));
}

Val search(Lowering& l, std::string_view rows_name, std::string_view values_name) {
  if (!search_result(l, rows_name, values_name)) return l.unsupported("a search in these operands");
  Val rows = l.arg(rows_name);
  const Val values = l.arg(values_name);
  if (l.has("sorter") && rows.elements() > 0) rows = gather_elements(rows, l.raw("sorter"), rows.rank() - 1);
  const bool right = l.flag("right") || l.text("side") == "right";
  const Val place = search_sorted(rows, values, right ? Side::right : Side::left);
  return convert(place, l.flag("out_int32") ? DType::i32 : DType::i64);
}

void add_search(Registry& registry, const std::string& name, std::string_view rows, std::string_view values) {
  NEURON_OP(name, promotes(ordered_move_rule, {rows, values}),
            result(ResultRule([=](const Lowering& l) { return search_result(l, rows, values); })),
            [=](Lowering& l) { return search(l, rows, values); });
}

// --- isin ---

// A NaN is in nothing.
Val contains(const Val& elements, const Val& tested) {
  const Val set = flatten(tested);
  const int64_t n = set.elements();
  if (n == 0) return full(elements.builder(), DType::boolean, elements.shape(), 0);
  if (n <= kPivots) {
    Val found = eq(elements, element(set, 0));
    for (int64_t i = 1; i < n; ++i) found = found | eq(elements, element(set, i));
    return found;
  }
  const Val sorted(set.builder(), set.builder().sort(set.value(), 0, false));
  return eq(look_up(sorted, search_sorted_nan_last(sorted, elements, Side::left)), elements);
}

void add_isin(Registry& registry, const std::string& overload, std::string_view elements, std::string_view tested) {
  NEURON_OP("aten::isin." + overload, promotes(ordered_move_rule, {elements, tested}),
            result(ResultRule([=](const Lowering& l) -> std::optional<Metas> {
              if (l.common() == DType::boolean) return std::nullopt;
              return one(contiguous_meta(DType::boolean, l.tensor(elements) ? l.meta(elements).shape : Shape{}));
            })),
            [=](Lowering& l) {
              if (l.common() == DType::boolean) return l.unsupported("bool");
              const Val found = contains(l.arg(elements), l.arg(tested));
              return l.flag("invert") ? !found : found;
            });
}

}  // namespace

void register_search(Registry& registry) {
  for (const char* overload : {"Tensor", "Scalar"}) {
    add_search(registry, std::string("aten::searchsorted.") + overload, "sorted_sequence", "self");
    add_search(registry, std::string("aten::bucketize.") + overload, "boundaries", "self");
  }
  add_isin(registry, "Tensor_Tensor", "elements", "test_elements");
  add_isin(registry, "Tensor_Scalar", "elements", "test_element");
  add_isin(registry, "Scalar_Tensor", "element", "test_elements");
}

}  // namespace neuron::ops
