// Binds one boxed kernel to every operator that has a lowering and to every in-place and out= overload derived from one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pytorch/dispatch/operator_plan.h"

namespace neuron::pytorch {

// Once per process, at import. Does not touch the device.
void register_operators();

// The plan of an overload that has a lowering (itself or through its functional form), whether or not it is bound to the
// dispatcher; nullptr if there is none. Lives as long as the process. For graph building.
const OperatorPlan* find_plan(const std::string& op);

// Overloads with a kernel of ours, for tests and documentation.
std::vector<std::string> registered_overloads();
// In-place and out= overloads of operators with a lowering that are neither derived nor listed in schema_overrides.
std::vector<std::string> underived_overloads();

}  // namespace neuron::pytorch
