// The names of the ABI's status codes (C++): for the library that answers nrt_get_status_as_str and for the loader, whose
// messages must not depend on the library at hand.
#ifndef NEURON_ABI_STATUS_NAMES_H
#define NEURON_ABI_STATUS_NAMES_H

#include "abi/nrt.h"

namespace neuron {

// "NRT_RESOURCE", or nullptr for a code that the ABI does not list.
inline const char* nrt_status_name(NRT_STATUS status) {
  switch (status) {
#define NEURON_NRT_NAME(name) \
  case name:                  \
    return #name;
    NEURON_NRT_NAME(NRT_SUCCESS)
    NEURON_NRT_NAME(NRT_FAILURE)
    NEURON_NRT_NAME(NRT_INVALID)
    NEURON_NRT_NAME(NRT_INVALID_HANDLE)
    NEURON_NRT_NAME(NRT_RESOURCE)
    NEURON_NRT_NAME(NRT_TIMEOUT)
    NEURON_NRT_NAME(NRT_HW_ERROR)
    NEURON_NRT_NAME(NRT_QUEUE_FULL)
    NEURON_NRT_NAME(NRT_LOAD_NOT_ENOUGH_NC)
    NEURON_NRT_NAME(NRT_UNSUPPORTED_NEFF_VERSION)
    NEURON_NRT_NAME(NRT_FAIL_HOST_MEM_ALLOC)
    NEURON_NRT_NAME(NRT_UNINITIALIZED)
    NEURON_NRT_NAME(NRT_CLOSED)
    NEURON_NRT_NAME(NRT_QUEUE_EMPTY)
    NEURON_NRT_NAME(NRT_EXEC_UNIT_UNRECOVERABLE)
    NEURON_NRT_NAME(NRT_EXEC_BAD_INPUT)
    NEURON_NRT_NAME(NRT_EXEC_COMPLETED_WITH_NUM_ERR)
    NEURON_NRT_NAME(NRT_EXEC_COMPLETED_WITH_ERR)
    NEURON_NRT_NAME(NRT_EXEC_NC_BUSY)
    NEURON_NRT_NAME(NRT_EXEC_OOB)
    NEURON_NRT_NAME(NRT_COLL_PENDING)
#undef NEURON_NRT_NAME
  }
  return nullptr;
}

}  // namespace neuron

#endif
