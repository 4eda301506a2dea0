/* A stand-in libnrt for loader tests. Macros choose its defects: OMIT_EXECUTE lacks a required symbol, OLD_NAMES exports the
   core counts under their former names, FAIL_INIT fails nrt_init. */
#include <stdlib.h>
#include <string.h>

#include "abi/nrt.h"

NRT_STATUS nrt_init(nrt_framework_type_t framework, const char* fw, const char* fal) {
  (void)framework, (void)fw, (void)fal;
#ifdef FAIL_INIT
  return NRT_FAILURE;
#else
  return NRT_SUCCESS;
#endif
}
void nrt_close(void) {}
NRT_STATUS nrt_get_version(nrt_version_t* version, size_t size) {
  nrt_version_t v;
  memset(&v, 0, sizeof v);
  v.rt_major = 99;
  memcpy(version, &v, size < sizeof v ? size : sizeof v);
  return NRT_SUCCESS;
}
#ifdef OLD_NAMES
NRT_STATUS nrt_get_total_nc_count(uint32_t* n) {
  *n = 3;
  return NRT_SUCCESS;
}
NRT_STATUS nrt_get_visible_nc_count(uint32_t* n) {
  *n = 3;
  return NRT_SUCCESS;
}
#else
NRT_STATUS nrt_get_total_vnc_count(uint32_t* n) {
  *n = 3;
  return NRT_SUCCESS;
}
NRT_STATUS nrt_get_visible_vnc_count(uint32_t* n) {
  *n = 3;
  return NRT_SUCCESS;
}
#endif
NRT_STATUS nrt_tensor_allocate(nrt_tensor_placement_t p, int vnc, size_t size, const char* name, nrt_tensor_t** t) {
  (void)p, (void)vnc, (void)size, (void)name;
  *t = NULL;
  return NRT_RESOURCE;
}
NRT_STATUS nrt_tensor_allocate_slice(const nrt_tensor_t* s, size_t o, size_t n, const char* name, nrt_tensor_t** t) {
  (void)s, (void)o, (void)n, (void)name, (void)t;
  return NRT_INVALID;
}
void nrt_tensor_free(nrt_tensor_t** t) { *t = NULL; }
size_t nrt_tensor_get_size(const nrt_tensor_t* t) {
  (void)t;
  return 0;
}
NRT_STATUS nrt_tensor_read(const nrt_tensor_t* t, void* b, size_t o, size_t n) {
  (void)t, (void)b, (void)o, (void)n;
  return NRT_INVALID;
}
NRT_STATUS nrt_tensor_write(nrt_tensor_t* t, const void* b, size_t o, size_t n) {
  (void)t, (void)b, (void)o, (void)n;
  return NRT_INVALID;
}
NRT_STATUS nrt_tensor_copy(const nrt_tensor_t* s, size_t so, nrt_tensor_t* d, size_t doff, size_t n) {
  (void)s, (void)so, (void)d, (void)doff, (void)n;
  return NRT_INVALID;
}
NRT_STATUS nrt_allocate_tensor_set(nrt_tensor_set_t** s) {
  *s = NULL;
  return NRT_FAILURE;
}
void nrt_destroy_tensor_set(nrt_tensor_set_t** s) { *s = NULL; }
NRT_STATUS nrt_add_tensor_to_tensor_set(nrt_tensor_set_t* s, const char* n, nrt_tensor_t* t) {
  (void)s, (void)n, (void)t;
  return NRT_FAILURE;
}
NRT_STATUS nrt_load(const void* b, size_t n, int32_t vnc, int32_t count, nrt_model_t** m) {
  (void)b, (void)n, (void)vnc, (void)count, (void)m;
  return NRT_FAILURE;
}
NRT_STATUS nrt_unload(nrt_model_t* m) {
  (void)m;
  return NRT_SUCCESS;
}
#ifndef OMIT_EXECUTE
NRT_STATUS nrt_execute(nrt_model_t* m, const nrt_tensor_set_t* i, nrt_tensor_set_t* o) {
  (void)m, (void)i, (void)o;
  return NRT_FAILURE;
}
#endif
NRT_STATUS nrt_get_model_tensor_info(nrt_model_t* m, nrt_tensor_info_array_t** i) {
  (void)m, (void)i;
  return NRT_FAILURE;
}
NRT_STATUS nrt_free_model_tensor_info(nrt_tensor_info_array_t* i) {
  (void)i;
  return NRT_SUCCESS;
}
