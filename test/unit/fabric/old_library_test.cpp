// A libfabric at run time that is older than the headers: both of its calls that tell are ours here.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "fabric/info.h"
#include "log_lines.h"

namespace railyard::fabric::old_library_test {

constexpr std::uint32_t headers = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
constexpr std::uint32_t newer = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION + 1), older = FI_VERSION(1, 15);
static_assert(older < headers);

std::uint32_t installed = 0;  // 0: what there is
std::uint32_t most_asked = 0;

template <class Call>
Call real(const char* name) {
    return reinterpret_cast<Call>(dlsym(RTLD_NEXT, name));
}

}  // namespace railyard::fabric::old_library_test

namespace old_library = railyard::fabric::old_library_test;

extern "C" std::uint32_t fi_version() {
    return old_library::installed ? old_library::installed
                                  : old_library::real<decltype(&fi_version)>("fi_version")();
}

extern "C" int fi_getinfo(std::uint32_t version, const char* node, const char* service, std::uint64_t flags,
                          const fi_info* hints, fi_info** list) {
    old_library::most_asked = std::max(old_library::most_asked, version);
    if (old_library::installed && version > old_library::installed) return -FI_ENOSYS;
    return old_library::real<decltype(&fi_getinfo)>("fi_getinfo")(version, node, service, flags, hints, list);
}

namespace railyard::fabric::old_library_test {

class OldLibrary : public testing::Test {
  protected:
    ~OldLibrary() override { installed = 0; }
    std::vector<Device> found(std::uint32_t library) {
        installed = library;
        most_asked = 0;
        return discover("tcp", parse_device_filter("lo"));
    }
    test::LogLines log_;
};

TEST_F(OldLibrary, IsAskedForWhatItKnowsAndSaidToBeOld) {
    const std::vector<Device> devices = found(older);
    EXPECT_EQ(devices.size(), 1u);
    EXPECT_EQ(most_asked, older);
    EXPECT_EQ(devices.at(0).info->fabric_attr->api_version, older);
    EXPECT_EQ(log_.count("older than the headers"), 1);
}

TEST_F(OldLibrary, NoOtherIs) {
    for (const std::uint32_t library : {headers, newer}) {
        EXPECT_EQ(found(library).size(), 1u);
        EXPECT_EQ(most_asked, headers);
    }
    EXPECT_EQ(log_.count("older than the headers"), 0);
}

}  // namespace railyard::fabric::old_library_test
