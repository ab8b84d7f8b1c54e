// Which kinds of memory the plugin says that it takes, and what it touches to know.
#include <backend/backend_plugin.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "host/plugin_loader.h"

namespace railyard {
namespace {

using Types = std::vector<nixl_mem_t>;

Types memory_types() {
    const std::string path = host::plugin_directory("") + "/libplugin_RAILYARD.so";
    void* const image = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!image) throw std::runtime_error(dlerror());
    const auto init = reinterpret_cast<nixlBackendPlugin* (*)()>(dlsym(image, "nixl_plugin_init"));
    const nixl_mem_list_t types = init()->get_backend_mems();
    return {types.begin(), types.end()};
}

/// An image that was loaded stays, so this is the one order.
TEST(MemoryTypes, WithoutGpusTheDriverIsNotEvenLoaded) {
    const auto loaded = [] { return dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != nullptr; };
    setenv("RAILYARD_GPU_DEVICES", "none", 1);
    EXPECT_EQ(memory_types(), Types{DRAM_SEG});
    EXPECT_FALSE(loaded());
    unsetenv("RAILYARD_GPU_DEVICES");
    EXPECT_EQ(memory_types(), (Types{DRAM_SEG, VRAM_SEG}));
    EXPECT_TRUE(loaded());
}

}  // namespace
}  // namespace railyard
