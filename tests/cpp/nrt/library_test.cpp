#include "nrt/library.h"

#include <gtest/gtest.h>

namespace neuron::nrt {
namespace {

TEST(OpenLibrary, takes_a_library_with_every_required_symbol) {
  auto library = open_library(NRT_COMPLETE);
  ASSERT_TRUE(library.ok()) << library.status().message();
  nrt_version_t version{};
  EXPECT_EQ((*library)->nrt_get_version(&version, sizeof version), NRT_SUCCESS);
  EXPECT_EQ(version.rt_major, 99u);
  EXPECT_FALSE((*library)->emulated);
  EXPECT_EQ((*library)->nrt_tensor_memset, nullptr) << "optional symbols may be absent";
}

TEST(OpenLibrary, names_the_missing_required_symbol) {
  auto library = open_library(NRT_WITHOUT_EXECUTE);
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.status().code(), Code::unavailable);
  EXPECT_NE(library.status().message().find("nrt_execute"), std::string::npos) << library.status().message();
}

TEST(OpenLibrary, accepts_the_former_names_of_the_core_counts) {
  auto library = open_library(NRT_OLD_NAMES);
  ASSERT_TRUE(library.ok()) << library.status().message();
  uint32_t count = 0;
  EXPECT_EQ((*library)->nrt_get_visible_vnc_count(&count), NRT_SUCCESS);
  EXPECT_EQ(count, 3u);
}

TEST(OpenLibrary, says_which_file_cannot_be_loaded) {
  auto library = open_library("/nonexistent/libnrt.so.1");
  ASSERT_FALSE(library.ok());
  EXPECT_NE(library.status().message().find("/nonexistent/libnrt.so.1"), std::string::npos);
}

TEST(Check, keeps_call_and_code) {
  auto library = open_library(NRT_FAILING_INIT);
  ASSERT_TRUE(library.ok());
  Status status = check(**library, (*library)->nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), "nrt_init");
  EXPECT_EQ(status.message(), "nrt_init failed with NRT_FAILURE (1)");
  EXPECT_EQ(check(**library, NRT_RESOURCE, "f").code(), Code::out_of_memory);
  EXPECT_EQ(check(**library, NRT_EXEC_OOB, "f").code(), Code::out_of_range);
  EXPECT_NE(check(**library, static_cast<NRT_STATUS>(4711), "f").message().find("4711"), std::string::npos);
}

}  // namespace
}  // namespace neuron::nrt
