#include "compiler/compiler.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>

#include "compiler/attention_emitter.h"
#include "compiler/attention_expansion.h"
#include "compiler/canonicalize.h"
#include "compiler/expand_ops.h"
#include "compiler/fuse.h"
#include "compiler/matmul.h"
#include "compiler/plan_memory.h"
#include "compiler/region.h"
#include "compiler/schedule.h"
#include "isa/disassembler.h"

namespace neuron::compiler {

namespace {

// Tables of the program: parameters that are used, outputs, constants, scalars, one scratch tensor per value that crosses
// regions.
class TensorTable {
 public:
  TensorTable(const ir::Graph& graph, const FusionPlan& plan, EmitContext& context)
      : graph_(graph), plan_(plan), context_(context), builder_(context.builder) {}

  void run() {
    for (const Region& r : plan_.regions) {
      for (const Term& t : r.expression.terms)
        if (t.kind == TermKind::load) use(t.source);
      visit_operand_sources(r, [&](ir::Value v) { use(v); });
    }
    outputs();
    for (const auto& [value, output] : plan_.value_in_output) context_.set_buffer(value, output_buffer(output));
    for (const Region& r : plan_.regions)
      for (const Store& s : r.stores)
        if (s.output < 0 && !context_.has_buffer(s.value)) {
          if (is_staging(s.value)) {
            const isa::Tensor& like =
                builder_.program().tensors[output_tensors_[static_cast<size_t>(staged_output(s.value))]];
            const auto unit = static_cast<int64_t>(size_of(like.dtype));
            context_.set_buffer(s.value,
                                {builder_.scratch("staging", like.dtype, {static_cast<int64_t>(like.bytes) / unit}), 0});
            continue;
          }
          const ir::Type& t = type_of(s.value);
          context_.set_buffer(s.value, {builder_.scratch("scratch" + std::to_string(s.value.node), t.dtype, t.shape), 0});
        }
  }

 private:
  const ir::Type& type_of(ir::Value v) const {
    const ir::Node& node = graph_.nodes[static_cast<size_t>(v.node)];
    return node.types[std::min(static_cast<size_t>(v.result), node.types.size() - 1)];
  }

  static uint64_t extent(const ir::Type& type, const std::vector<int64_t>& strides) {
    if (type.elements() == 0) return 0;
    int64_t last = 0;
    for (size_t d = 0; d < strides.size(); ++d) last += strides[d] * (type.shape[d] - 1);
    return static_cast<uint64_t>(last + 1) * size_of(type.dtype);
  }

  void use(ir::Value v) {
    if (is_staging(v) || v.result != 0 || context_.has_buffer(v)) return;
    const ir::Node& node = graph_.nodes[static_cast<size_t>(v.node)];
    if (node.op == ir::Op::constant) {
      const ir::Type& t = node.types[0];
      context_.set_buffer(v, {builder_.constant(t.dtype, t.shape, std::get<ir::ConstantAttrs>(node.attrs).data), 0});
    } else if (node.op == ir::Op::parameter) {
      const auto& a = std::get<ir::ParameterAttrs>(node.attrs);
      if (a.kind == ir::ParameterAttrs::Kind::scalar) {
        context_.set_buffer(v, {scalars(a.index + (node.types[0].dtype == DType::c128 ? 2 : 1)), a.index * 8});
      } else {
        context_.set_buffer(v, {input(v.node), 0});
      }
    }
  }

  uint32_t scalars(int32_t slots) {
    if (scalars_ < 0) {
      isa::Tensor t;
      t.name = "scalars";
      t.dtype = DType::u64;
      scalars_ = static_cast<int32_t>(builder_.tensor(std::move(t)));
    }
    isa::Tensor& t = builder_.program().tensors[static_cast<size_t>(scalars_)];
    t.bytes = std::max<uint64_t>(t.bytes, static_cast<uint64_t>(slots) * 8);
    t.shape = {static_cast<int64_t>(t.bytes / 8)};
    t.strides = {1};
    return static_cast<uint32_t>(scalars_);
  }

  uint32_t input(int32_t node_index) {
    const ir::Node& node = graph_.nodes[static_cast<size_t>(node_index)];
    const auto& a = std::get<ir::ParameterAttrs>(node.attrs);
    auto it = inputs_.find(a.index);
    if (it != inputs_.end()) return it->second;
    isa::Tensor t;
    t.name = "input" + std::to_string(a.index);
    t.role = isa::TensorRole::input;
    t.dtype = node.types[0].dtype;
    t.shape = node.types[0].shape;
    t.strides = a.strides;
    t.bytes = extent(node.types[0], a.strides);
    const uint32_t id = builder_.tensor(std::move(t));
    inputs_.emplace(a.index, id);
    return id;
  }

  void outputs() {
    for (size_t o = 0; o < graph_.outputs.size(); ++o) {
      const ir::Output& out = graph_.outputs[o];
      const ir::Type& type = graph_.type(out.value);
      isa::Tensor t;
      t.name = "output" + std::to_string(o);
      t.role = isa::TensorRole::output;
      t.dtype = type.dtype;
      t.shape = type.shape;
      t.strides = out.strides;
      t.bytes = extent(type, out.strides);
      if (out.alias >= 0) {
        for (size_t n = 0; n < graph_.nodes.size(); ++n) {
          const auto* a = std::get_if<ir::ParameterAttrs>(&graph_.nodes[n].attrs);
          if (a != nullptr && a->kind == ir::ParameterAttrs::Kind::tensor && a->index == out.alias)
            t.alias_of = static_cast<int32_t>(input(static_cast<int32_t>(n)));
        }
      }
      output_tensors_.push_back(builder_.tensor(std::move(t)));
      context_.set_output(static_cast<int32_t>(o), {output_tensors_.back(), 0});
    }
  }

  Buffer output_buffer(int32_t o) const { return {output_tensors_[static_cast<size_t>(o)], 0}; }

  const ir::Graph& graph_;
  const FusionPlan& plan_;
  EmitContext& context_;
  ProgramBuilder& builder_;
  std::unordered_map<int32_t, uint32_t> inputs_;
  std::vector<uint32_t> output_tensors_;
  int32_t scalars_ = -1;
};

Status emit_region(EmitContext& context, const Region& region) {
  context.builder.set_label(context.label_of(region.node));
  switch (region.kind) {
    case RegionKind::loop:
      return emit_loop_region(context, region);
    case RegionKind::matmul:
      return emit_matmul_region(context, region);
    default:
      return emit_node_region(context, region);
  }
}

// Emits and places one region, with ever smaller tiles until it fits.
Status emit_and_place(EmitContext& context, const Region& region) {
  Status status;
  for (context.sbuf_divisor = 1; context.sbuf_divisor <= 64; context.sbuf_divisor *= 2) {
    const ProgramBuilder::Mark mark = context.builder.mark();
    NEURON_RETURN_IF_ERROR(emit_region(context, region));
    status = place_tiles(context.builder, mark);
    if (status.code() != Code::does_not_fit) break;
    context.builder.rollback(mark);
  }
  context.sbuf_divisor = 1;
  return status.ok() ? status : status.within("region " + to_string(context.graph, region));
}

void write_file(const std::string& path, const std::string& text) {
  if (std::FILE* f = std::fopen(path.c_str(), "w")) {
    std::fwrite(text.data(), 1, text.size(), f);
    std::fclose(f);
  }
}

std::string region_lines(const ir::Graph& graph, const FusionPlan& plan) {
  std::string text;
  for (const Region& r : plan.regions) text += to_string(graph, r) + "\n";
  return text;
}

void dump(const ir::Graph& graph, const FusionPlan& plan, const isa::Program& program, const std::string& folder) {
  static std::atomic<int> counter = 0;
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  std::string name = graph.name.empty() ? "graph" : graph.name;
  for (char& c : name)
    if (c == '/' || c == ':' || c == ' ') c = '_';
  const std::string base = folder + "/" + std::to_string(counter++) + "_" + name;
  write_file(base + ".graph.txt", ir::print(graph));
  write_file(base + ".stablehlo.mlir", ir::print_stablehlo(graph));
  write_file(base + ".regions.txt", region_lines(graph, plan));
  write_file(base + ".program.txt", isa::disassemble(program));
}

Result<ir::Graph> prepare(const ir::Graph& graph, const Options& options) {
  NEURON_ASSIGN(ir::Graph g, expand_attention(graph, [](const ir::Graph& whole, const ir::Node& node) {
                  return !attention_region_takes(whole, node);
                }));
  if (needs_expansion(g)) {
    NEURON_ASSIGN(g, expand_ops(g));
  }
  canonicalize(g, options);
  return g;
}

}  // namespace

Result<isa::Program> compile(const ir::Graph& graph, const Options& options) {
  const isa::Target* target = isa::find_target(options.target);
  if (target == nullptr)
    return invalid_argument("unknown target '" + options.target + "'; known: " + std::string(isa::target_names()));
  NEURON_ASSIGN(const ir::Graph g, prepare(graph, options));
  NEURON_ASSIGN(const FusionPlan plan, fuse(g, options));
  ProgramBuilder builder(*target);
  builder.program().name = graph.name;
  EmitContext context(g, options, builder);
  TensorTable(g, plan, context).run();
  for (const Region& region : plan.regions) NEURON_RETURN_IF_ERROR(emit_and_place(context, region));
  const ArenaPlan arena = place_scratch(builder.program());
  add_semaphores(builder, arena);
  merge_scratch(builder.program(), arena);
  isa::Program program = std::move(builder.program());
  if (!options.dump_dir.empty()) dump(g, plan, program, options.dump_dir);
  return program;
}

Result<std::string> describe_regions(const ir::Graph& graph, const Options& options) {
  NEURON_ASSIGN(const ir::Graph g, prepare(graph, options));
  NEURON_ASSIGN(const FusionPlan plan, fuse(g, options));
  return region_lines(g, plan);
}

}  // namespace neuron::compiler
