/* The software NeuronCore as a C program sees it: this file knows nothing but src/abi. abi_test FOLDER_WITH_CONTAINERS */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/nrt.h"
#include "abi/nrtx.h"

static int failures = 0;

#define CHECK(condition)                                                                                 \
  do {                                                                                                   \
    if (!(condition)) {                                                                                  \
      printf("%s:%d: failed: %s (last error: %s)\n", __FILE__, __LINE__, #condition, nrtx_last_error()); \
      ++failures;                                                                                        \
    }                                                                                                    \
  } while (0)
#define CHECK_STATUS(expected, call)                                                                             \
  do {                                                                                                           \
    NRT_STATUS status_ = (call);                                                                                 \
    if (status_ != (expected)) {                                                                                 \
      printf("%s:%d: %s gave %s, expected %s (%s)\n", __FILE__, __LINE__, #call, nrt_get_status_as_str(status_), \
             nrt_get_status_as_str(expected), nrtx_last_error());                                                \
      ++failures;                                                                                                \
    }                                                                                                            \
  } while (0)
#define CHECK_OK(call) CHECK_STATUS(NRT_SUCCESS, call)

static const char* folder;

static nrt_model_t* load(const char* name, int core) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE* file = fopen(path, "rb");
  if (!file) {
    printf("cannot open %s\n", path);
    exit(2);
  }
  static char bytes[1 << 16];
  size_t size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  nrt_model_t* model = NULL;
  CHECK_OK(nrt_load(bytes, size, core, 1, &model));
  memset(bytes, 0, sizeof bytes); /* the library keeps no pointer to the caller's bytes */
  return model;
}

static nrt_tensor_t* tensor(int core, size_t size) {
  nrt_tensor_t* t = NULL;
  CHECK_OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, core, size, "t", &t));
  return t;
}

static nrt_tensor_set_t* set_of(const char* name, nrt_tensor_t* t) {
  nrt_tensor_set_t* set = NULL;
  CHECK_OK(nrt_allocate_tensor_set(&set));
  if (name) CHECK_OK(nrt_add_tensor_to_tensor_set(set, name, t));
  return set;
}

static void before_init(void) {
  uint32_t count = 0;
  nrt_tensor_t* t = NULL;
  nrt_version_t version;
  CHECK_OK(nrt_get_total_vnc_count(&count));
  CHECK(count == 4);
  CHECK_OK(nrt_get_version(&version, sizeof version));
  CHECK_STATUS(NRT_UNINITIALIZED, nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 16, "t", &t));
  CHECK(strstr(nrtx_last_error(), "nrt_init") != NULL);
  CHECK_STATUS(NRT_INVALID, nrt_init(NRT_FRAMEWORK_TYPE_INVALID, "", ""));
}

static void short_structs(void) {
  char place[300];
  memset(place, 0x5a, sizeof place);
  CHECK_OK(nrt_get_version((nrt_version_t*)place, 8));
  CHECK(place[8] == 0x5a);
  uint64_t major;
  memcpy(&major, place, 8);
  CHECK(major == 2);
  memset(place, 0x5a, sizeof place);
  CHECK_OK(nrt_get_version((nrt_version_t*)place, sizeof place)); /* a longer, newer struct */
  CHECK(place[sizeof(nrt_version_t)] == 0x5a);
  CHECK_STATUS(NRT_INVALID, nrt_get_version(NULL, 8));
  nrt_instance_info_t info;
  memset(&info, 0, sizeof info);
  CHECK_OK(nrt_get_instance_info(&info, 8));
  CHECK(info.family == 5 && info.arch_name[0] == 0);
  nrt_vnc_memory_stats_t stats = {0, 77};
  size_t written = 0;
  CHECK_OK(nrt_get_vnc_memory_stats(0, &stats, 8, &written));
  CHECK(written == 8 && stats.bytes_limit == 77);
  CHECK_OK(nrt_get_vnc_memory_stats(0, &stats, sizeof stats, &written));
  CHECK(written == 16 && stats.bytes_limit > 0);
  CHECK_STATUS(NRT_INVALID, nrt_get_vnc_memory_stats(99, &stats, sizeof stats, &written));
}

static void tensors(void) {
  nrt_tensor_t* t = NULL;
  CHECK_STATUS(NRT_INVALID, nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 0, "empty", &t));
  CHECK_STATUS(NRT_INVALID, nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_HOST, 0, 16, "host", &t));
  CHECK_STATUS(NRT_INVALID, nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 4, 16, "core 4", &t));
  CHECK_STATUS(NRT_INVALID, nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 16, "nowhere", NULL));
  CHECK_STATUS(NRT_RESOURCE, nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, (size_t)1 << 45, "huge", &t));
  CHECK(t == NULL);

  t = tensor(0, 64);
  CHECK(nrt_tensor_get_size(t) == 64);
  char bytes[64];
  for (int n = 0; n < 64; ++n) bytes[n] = (char)n;
  CHECK_OK(nrt_tensor_write(t, bytes, 0, 64));
  char back[64] = {0};
  CHECK_OK(nrt_tensor_read(t, back, 8, 4));
  CHECK(back[0] == 8 && back[3] == 11 && back[4] == 0);
  CHECK_STATUS(NRT_INVALID, nrt_tensor_read(t, back, 61, 4));
  CHECK_STATUS(NRT_INVALID, nrt_tensor_write(t, bytes, (size_t)-1, 2));
  CHECK_STATUS(NRT_INVALID, nrt_tensor_read(t, NULL, 0, 4));

  /* A slice outlives its parent. */
  nrt_tensor_t *slice = NULL, *part = NULL;
  CHECK_STATUS(NRT_INVALID, nrt_tensor_allocate_slice(t, 60, 8, "past the end", &slice));
  CHECK_STATUS(NRT_INVALID, nrt_tensor_allocate_slice(t, 0, 0, "empty", &slice));
  CHECK_OK(nrt_tensor_allocate_slice(t, 16, 32, "slice", &slice));
  CHECK_OK(nrt_tensor_allocate_slice(slice, 4, 4, "slice of a slice", &part));
  nrt_tensor_t* stale = t;
  nrt_tensor_free(&t);
  CHECK(t == NULL);
  CHECK_OK(nrt_tensor_read(part, back, 0, 4));
  CHECK(back[0] == 20);
  CHECK_STATUS(NRT_INVALID_HANDLE, nrt_tensor_read(stale, back, 0, 4));
  CHECK(strstr(nrtx_last_error(), "freed") != NULL);
  nrt_tensor_free(&stale); /* twice: refused, and nothing breaks */
  CHECK(strstr(nrtx_last_error(), "nrt_tensor_free") != NULL);
  CHECK_STATUS(NRT_INVALID_HANDLE, nrt_tensor_read((nrt_tensor_t*)bytes, back, 0, 4));
  CHECK(strstr(nrtx_last_error(), "not a handle") != NULL);
  CHECK_STATUS(NRT_INVALID_HANDLE, nrt_tensor_read(NULL, back, 0, 4));
  nrt_tensor_free(&slice);

  nrt_tensor_t *other = tensor(0, 8), *elsewhere = tensor(1, 8);
  CHECK_OK(nrt_tensor_memset(other, 0, 7, 8));
  CHECK_OK(nrt_tensor_copy(part, 0, other, 4, 4));
  CHECK_OK(nrt_tensor_read(other, back, 0, 8));
  CHECK(back[3] == 7 && back[4] == 20 && back[7] == 23);
  CHECK_STATUS(NRT_INVALID, nrt_tensor_copy(part, 0, elsewhere, 0, 4));
  CHECK_STATUS(NRT_INVALID, nrt_tensor_copy(part, 0, other, 6, 4));
  CHECK(nrt_tensor_get_va(other) == NULL); /* unmapped unless NEURON_RT_MAP_HBM=1 */

  char one[4] = {1, 2, 3, 4}, two[4] = {5, 6, 7, 8};
  nrt_tensor_batch_op_t ops[2] = {{0, 4, one}, {4, 4, two}};
  nrt_tensor_batch_t batch = {other, ops, 2};
  CHECK_OK(nrt_tensor_write_batch(&batch, 1, false));
  memset(one, 0, 4);
  memset(two, 0, 4);
  CHECK_OK(nrt_tensor_read_batch(&batch, 1, false));
  CHECK(one[1] == 2 && two[2] == 7);
  ops[1].offset = 6;
  one[0] = 0;
  CHECK_STATUS(NRT_INVALID, nrt_tensor_read_batch(&batch, 1, false));
  CHECK(one[0] == 0); /* nothing was copied */
  nrt_tensor_free(&part);
  nrt_tensor_free(&other);
  nrt_tensor_free(&elsewhere);
  nrt_vnc_memory_stats_t stats;
  CHECK_OK(nrt_get_vnc_memory_stats(0, &stats, sizeof stats, NULL));
  CHECK(stats.bytes_used == 0);
}

static void execute(void) {
  nrt_model_t* model = load("add.tile", 0);
  nrt_tensor_t *a = tensor(0, 128), *b = tensor(0, 128), *out = tensor(0, 128), *small = tensor(0, 64),
               *far = tensor(1, 128);
  float va[32], vb[32], vo[32];
  for (int n = 0; n < 32; ++n) {
    va[n] = (float)n;
    vb[n] = 0.5f;
  }
  CHECK_OK(nrt_tensor_write(a, va, 0, 128));
  CHECK_OK(nrt_tensor_write(b, vb, 0, 128));
  nrt_tensor_set_t *in = set_of("a", a), *outs = set_of("out", out);
  CHECK_STATUS(NRT_INVALID, nrt_execute(model, in, outs)); /* b is missing */
  CHECK(strstr(nrtx_last_error(), "'b'") != NULL);
  CHECK_OK(nrt_add_tensor_to_tensor_set(in, "b", b));
  CHECK_OK(nrt_execute(model, in, outs));
  CHECK_OK(nrt_tensor_read(out, vo, 0, 128));
  CHECK(vo[0] == 0.5f && vo[31] == 31.5f);

  CHECK_OK(nrt_add_tensor_to_tensor_set(in, "b", small));
  CHECK_STATUS(NRT_INVALID, nrt_execute(model, in, outs)); /* wrong size */
  CHECK_OK(nrt_add_tensor_to_tensor_set(in, "b", far));
  CHECK_STATUS(NRT_INVALID, nrt_execute(model, in, outs)); /* wrong core */
  CHECK(strstr(nrtx_last_error(), "core 1") != NULL);
  CHECK_OK(nrt_add_tensor_to_tensor_set(in, "b", a)); /* replaces */
  CHECK_OK(nrt_execute(model, in, outs));
  CHECK_OK(nrt_tensor_read(out, vo, 0, 128));
  CHECK(vo[31] == 62.0f);
  CHECK_OK(nrt_add_tensor_to_tensor_set(in, "c", b));
  CHECK_STATUS(NRT_INVALID, nrt_execute(model, in, outs)); /* no such input */
  nrt_destroy_tensor_set(&in);
  CHECK(in == NULL);

  in = set_of("b", b); /* another order of names */
  CHECK_OK(nrt_add_tensor_to_tensor_set(in, "a", a));
  CHECK_OK(nrt_execute(model, in, outs));
  nrt_tensor_t* found = NULL;
  CHECK_OK(nrt_get_tensor_from_tensor_set(in, "a", &found));
  CHECK(found == a);
  CHECK_STATUS(NRT_FAILURE, nrt_get_tensor_from_tensor_set(in, "z", &found));
  nrt_tensor_free(&b);
  CHECK_STATUS(NRT_INVALID, nrt_execute(model, in, outs)); /* a freed tensor in the set */
  CHECK(strstr(nrtx_last_error(), "freed") != NULL);
  CHECK_STATUS(NRT_INVALID_HANDLE, nrt_execute(model, NULL, outs));

  nrt_tensor_info_array_t* info = NULL;
  CHECK_OK(nrt_get_model_tensor_info(model, &info));
  CHECK(info && info->tensor_count == 3);
  int seen = 0;
  for (uint64_t n = 0; info && n < info->tensor_count; ++n) {
    const nrt_tensor_info_t* i = &info->tensor_array[n];
    if (strcmp(i->name, "out") == 0) {
      ++seen;
      CHECK(i->usage == NRT_TENSOR_USAGE_OUTPUT && i->size == 128 && i->ndim == 2 && i->shape[0] == 4 && i->shape[1] == 8);
      CHECK(i->dtype == NRT_DTYPE_FLOAT32);
    }
  }
  CHECK(seen == 1);
  CHECK_OK(nrt_free_model_tensor_info(info));

  nrtx_model_time_t time;
  memset(&time, 0, sizeof time);
  CHECK_OK(nrtx_get_model_time(model, &time, sizeof time));
  CHECK(time.total_ns > 0 && time.bound_by[0] != 0);
  double clock = 0, later = 0;
  CHECK_OK(nrtx_get_core_clock(0, &clock));
  b = tensor(0, 128);
  CHECK_OK(nrt_add_tensor_to_tensor_set(in, "b", b));
  CHECK_OK(nrt_execute(model, in, outs));
  CHECK_OK(nrtx_get_core_clock(0, &later));
  CHECK(later - clock >= time.total_ns + time.launch_ns - 1e-3 && later - clock < time.total_ns + time.launch_ns + 1e6);
  char* text = NULL;
  size_t length = 0;
  CHECK_OK(nrtx_disassemble(model, &text, &length));
  CHECK(length > 0 && strlen(text) == length && strstr(text, "tensor_tensor"));
  nrtx_free(text);
  CHECK_OK(nrtx_get_model_timeline(model, 100, &text, &length));
  CHECK(text[0] == '{' && strstr(text, "traceEvents"));
  nrtx_free(text);

  CHECK_OK(nrt_unload(model));
  CHECK_STATUS(NRT_INVALID_HANDLE, nrt_unload(model));
  CHECK_STATUS(NRT_INVALID_HANDLE, nrt_execute(model, in, outs));
  nrt_destroy_tensor_set(&in);
  nrt_destroy_tensor_set(&outs);
  nrt_tensor_free(&a);
  nrt_tensor_free(&b);
  nrt_tensor_free(&out);
  nrt_tensor_free(&small);
  nrt_tensor_free(&far);
}

static void in_place(void) {
  nrt_model_t* model = load("add_in_place.tile", 2);
  nrt_tensor_t *a = tensor(2, 128), *b = tensor(2, 128), *other = tensor(2, 128);
  float v[32];
  for (int n = 0; n < 32; ++n) v[n] = 2.0f;
  CHECK_OK(nrt_tensor_write(a, v, 0, 128));
  CHECK_OK(nrt_tensor_write(b, v, 0, 128));
  nrt_tensor_set_t *in = set_of("a", a), *out = set_of("out", a);
  CHECK_OK(nrt_add_tensor_to_tensor_set(in, "b", b));
  CHECK_OK(nrt_execute(model, in, out));
  CHECK_OK(nrt_execute(model, in, out));
  CHECK_OK(nrt_tensor_read(a, v, 0, 128));
  CHECK(v[0] == 6.0f && v[31] == 6.0f);
  CHECK_OK(nrt_add_tensor_to_tensor_set(out, "out", other));
  CHECK_STATUS(NRT_INVALID, nrt_execute(model, in, out));
  CHECK(strstr(nrtx_last_error(), "in place") != NULL);
  nrt_destroy_tensor_set(&in);
  nrt_destroy_tensor_set(&out);
  CHECK_OK(nrt_unload(model));
}

static void execution_errors(void) {
  nrt_model_t* model = load("gather.tile", 0);
  nrt_tensor_t *table = tensor(0, 80), *index = tensor(0, 24), *out = tensor(0, 24);
  float rows[20], got[6];
  for (int n = 0; n < 20; ++n) rows[n] = (float)n;
  int64_t indices[3] = {9, 0, 4};
  CHECK_OK(nrt_tensor_write(table, rows, 0, 80));
  CHECK_OK(nrt_tensor_write(index, indices, 0, 24));
  nrt_tensor_set_t *in = set_of("table", table), *outs = set_of("out", out);
  CHECK_OK(nrt_add_tensor_to_tensor_set(in, "index", index));
  const char* executors[] = {"plan", "interpreter", "shuffled:42"};
  for (int e = 0; e < 3; ++e) {
    CHECK_OK(nrtx_set_executor(executors[e]));
    indices[1] = 0;
    CHECK_OK(nrt_tensor_write(index, indices, 0, 24));
    if (e < 2) { /* the program has no semaphores, so a shuffled order may break it */
      CHECK_OK(nrt_execute(model, in, outs));
      CHECK_OK(nrt_tensor_read(out, got, 0, 24));
      CHECK(got[0] == 18.5f && got[1] == 19.5f && got[2] == 0.5f && got[5] == 9.5f);
    }
    if (e == 2) continue;
    indices[1] = -3;
    CHECK_OK(nrt_tensor_write(index, indices, 0, 24));
    CHECK_STATUS(NRT_EXEC_OOB, nrt_execute(model, in, outs));
    nrtx_out_of_range_t where;
    CHECK_OK(nrtx_last_out_of_range(&where, sizeof where));
    CHECK(strcmp(where.label, "aten::index_select") == 0 && where.index == -3 && where.bound == 10);
  }
  CHECK_STATUS(NRT_INVALID, nrtx_set_executor("fast"));
  CHECK_STATUS(NRT_INVALID, nrtx_set_executor("shuffled:x"));
  CHECK_OK(nrtx_set_executor("plan"));
  CHECK_OK(nrt_unload(model));

  nrt_model_t* divide = load("divide.tile", 0);
  nrt_tensor_t *x = tensor(0, 32), *y = tensor(0, 32), *z = tensor(0, 32);
  int64_t vx[4] = {7, -7, 9, 1}, vy[4] = {2, 2, -4, 0}, vz[4];
  CHECK_OK(nrt_tensor_write(x, vx, 0, 32));
  CHECK_OK(nrt_tensor_write(y, vy, 0, 32));
  nrt_tensor_set_t *operands = set_of("a", x), *result = set_of("out", z);
  CHECK_OK(nrt_add_tensor_to_tensor_set(operands, "b", y));
  CHECK_STATUS(NRT_EXEC_COMPLETED_WITH_ERR, nrt_execute(divide, operands, result));
  CHECK(strstr(nrtx_last_error(), "division by zero") != NULL);
  CHECK_STATUS(NRT_FAILURE, nrtx_last_out_of_range(&(nrtx_out_of_range_t){0}, 8)); /* belongs to an older failure */
  vy[3] = 1;
  CHECK_OK(nrt_tensor_write(y, vy, 0, 32));
  CHECK_OK(nrt_execute(divide, operands, result)); /* usable afterwards */
  CHECK_OK(nrt_tensor_read(z, vz, 0, 32));
  CHECK(vz[0] == 3 && vz[1] == -4 && vz[2] == -3 && vz[3] == 1);
}

static int calls = 0;
static int stop_soon(void* argument) {
  ++calls;
  return calls > *(int*)argument;
}

static void interrupt(void) {
  nrt_model_t* model = load("endless.tile", 0);
  nrt_tensor_t *a = tensor(0, 128), *out = tensor(0, 128);
  nrt_tensor_set_t *in = set_of("a", a), *outs = set_of("out", out);
  int limit = 20;
  const char* executors[] = {"interpreter", "plan"};
  for (int e = 0; e < 2; ++e) {
    CHECK_OK(nrtx_set_executor(executors[e]));
    calls = 0;
    nrtx_set_interrupt_check(stop_soon, &limit);
    CHECK_STATUS(NRT_EXEC_COMPLETED_WITH_ERR, nrt_execute(model, in, outs));
    CHECK(strstr(nrtx_last_error(), "interrupt") != NULL);
    nrtx_set_interrupt_check(NULL, NULL);
  }
  CHECK_OK(nrt_unload(model));
}

static void bad_bytes(void) {
  nrt_model_t* model = NULL;
  char neff[2048] = {2, 0, 0, 0, 0, 0, 0, 0, 0, 4};
  CHECK_STATUS(NRT_UNSUPPORTED_NEFF_VERSION, nrt_load(neff, sizeof neff, 0, 1, &model));
  CHECK_STATUS(NRT_INVALID, nrt_load(neff, 0, 0, 1, &model));
  CHECK_STATUS(NRT_INVALID, nrt_load(NULL, 10, 0, 1, &model));
  CHECK_STATUS(NRT_LOAD_NOT_ENOUGH_NC, nrt_load(neff, sizeof neff, 0, 64, &model));
  CHECK_STATUS(NRT_INVALID, nrt_load(neff, sizeof neff, 17, 1, &model));
  CHECK(model == NULL);
}

static void* execute_many(void* argument) {
  int core = *(int*)argument;
  nrt_model_t* model = load("add.tile", core);
  nrt_tensor_t *a = tensor(core, 128), *b = tensor(core, 128), *out = tensor(core, 128);
  nrt_tensor_set_t *in = set_of("a", a), *outs = set_of("out", out);
  CHECK_OK(nrt_add_tensor_to_tensor_set(in, "b", b));
  for (int n = 0; n < 2000; ++n) {
    nrt_tensor_t* slice = NULL;
    if (nrt_tensor_allocate_slice(b, 0, 128, "slice", &slice) != NRT_SUCCESS) ++failures;
    if (nrt_add_tensor_to_tensor_set(in, "b", slice) != NRT_SUCCESS) ++failures;
    if (nrt_execute(model, in, outs) != NRT_SUCCESS) ++failures;
    nrt_tensor_free(&slice);
  }
  CHECK_OK(nrt_unload(model));
  nrt_destroy_tensor_set(&in);
  nrt_destroy_tensor_set(&outs);
  nrt_tensor_free(&a);
  nrt_tensor_free(&b);
  nrt_tensor_free(&out);
  return NULL;
}

static void threads(void) {
  pthread_t thread;
  int core = 3;
  pthread_create(&thread, NULL, execute_many, &core);
  pthread_join(thread, NULL); /* load() uses a static buffer */
  CHECK_OK(nrtx_set_threads(2));
  CHECK_STATUS(NRT_INVALID, nrtx_set_threads(0));
  core = 1;
  execute_many(&core);
  CHECK(strlen(nrtx_host_isa()) > 0);
}

static void forked(void) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    nrt_tensor_t* t = NULL;
    uint32_t count = 0;
    int ok = nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 16, "t", &t) == NRT_UNINITIALIZED &&
             strstr(nrtx_last_error(), "fork") && nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "") != NRT_SUCCESS &&
             nrt_get_total_vnc_count(&count) == NRT_SUCCESS && count == 4;
    _exit(ok ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  nrt_tensor_t* t = tensor(0, 16); /* the parent goes on */
  nrt_tensor_free(&t);
}

static void closing(void) {
  nrt_tensor_t* t = tensor(0, 1 << 22);
  nrt_tensor_set_t* set = set_of("a", t);
  char bytes[4];
  nrt_close();
  CHECK_STATUS(NRT_CLOSED, nrt_tensor_read(t, bytes, 0, 4));
  CHECK_STATUS(NRT_CLOSED, nrt_allocate_tensor_set(&set));
  nrt_tensor_free(&t); /* late deleters do no harm */
  CHECK(t == NULL);
  nrt_close();
  CHECK_OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
  CHECK_STATUS(NRT_FAILURE, nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
  nrt_vnc_memory_stats_t stats;
  CHECK_OK(nrt_get_vnc_memory_stats(0, &stats, sizeof stats, NULL));
  CHECK(stats.bytes_used == 0);
  execute();
  nrt_close();
}

int main(int argc, char** argv) {
  if (argc != 2) {
    printf("usage: abi_test FOLDER_WITH_CONTAINERS\n");
    return 2;
  }
  folder = argv[1];
  before_init();
  CHECK_OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
  short_structs();
  tensors();
  execute();
  in_place();
  execution_errors();
  interrupt();
  bad_bytes();
  threads();
  forked();
  closing();
  printf("%d failures\n", failures);
  return failures ? 1 : 0;
}
