/* Extensions of the software NeuronCore beside libnrt. All optional: absent on
   hardware. Plain C, versioned by struct size. */
#ifndef NEURON_ABI_NRTX_H
#define NEURON_ABI_NRTX_H

#include "nrt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Why the last failed call of this thread failed, in words; "" if none. Valid until this thread's next nrt call. */
const char* nrtx_last_error(void);

/* The last NRT_EXEC_OOB of this thread. */
typedef struct {
  char label[256]; /* the operator the instruction came from */
  int64_t index;   /* the offending index value */
  int64_t bound;   /* valid indices are 0 <= index < bound */
} nrtx_out_of_range_t;
NRT_STATUS nrtx_last_out_of_range(nrtx_out_of_range_t* out, size_t size);

/* What the timing model says of a loaded model; computed on first call and cached. Times in nanoseconds of modelled
   Trainium time; busy times per engine of one physical core. */
typedef struct {
  double total_ns;  /* launch to completion on the core, without launch overhead */
  double launch_ns; /* fixed cost of one nrt_execute on the chip */
  double tensor_busy_ns, vector_busy_ns, scalar_busy_ns, gpsimd_busy_ns, dma_busy_ns;
  double routine_ns; /* part of gpsimd_busy_ns spent in routines */
  uint64_t hbm_bytes_read, hbm_bytes_written;
  uint64_t flops; /* multiply-adds of nc_matmul times two */
  uint32_t physical_cores_used;
  char bound_by[16]; /* "tensor", "vector", "scalar", "gpsimd", "dma", "latency", "launch" or "deadlock" */
} nrtx_model_time_t;
NRT_STATUS nrtx_get_model_time(nrt_model_t* model, nrtx_model_time_t* out, size_t size);

/* Engine timeline of a loaded model as JSON (Chrome trace event format, times in microseconds of modelled time).
   The caller frees it with nrtx_free. `max_events` bounds its length. */
NRT_STATUS nrtx_get_model_timeline(nrt_model_t* model, uint64_t max_events, char** json, size_t* length);
/* Disassembly of a loaded model, zero-terminated; nrtx_free it. */
NRT_STATUS nrtx_disassemble(nrt_model_t* model, char** text, size_t* length);
void nrtx_free(void* memory);

/* Modelled clock of a core, nanoseconds since nrt_init: advanced by executed models (total_ns + launch_ns) and copies. */
NRT_STATUS nrtx_get_core_clock(uint32_t vnc, double* ns);

/* Which executor nrt_execute uses from now on: "plan" (default), "interpreter", or "shuffled:SEED". */
NRT_STATUS nrtx_set_executor(const char* name);
/* Host threads used per launch (>= 1). */
NRT_STATUS nrtx_set_threads(uint32_t count);
/* Host ISA level of the kernels in use: "scalar", "avx2", "avx512". */
const char* nrtx_host_isa(void);

/* Called in nrt_execute between bounded pieces of work when set, on the calling thread; a non-zero return stops the launch
   with NRT_EXEC_COMPLETED_WITH_ERR. Lets a host language notice an interrupt. */
void nrtx_set_interrupt_check(int (*check)(void*), void* argument);

#ifdef __cplusplus
}
#endif
#endif
