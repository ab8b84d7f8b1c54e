#include "provider/device_memory.h"

#include <dlfcn.h>

namespace simefa {

namespace {

void* driver_symbol(const char* name) noexcept {
    void* symbol = dlsym(RTLD_DEFAULT, name);
    if (!symbol) {
        // A driver that was loaded with dlopen is not among the default symbols; it is not loaded for this.
        if (void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD)) {
            symbol = dlsym(driver, name);
            dlclose(driver);
        }
    }
    return symbol;
}

}  // namespace

std::uint64_t device_alias(std::uint64_t address, std::size_t length) noexcept {
    using Alias = void* (*)(unsigned long long, std::size_t);
    void* symbol = driver_symbol("fakecuda_alias");
    if (!symbol) return 0;
    return reinterpret_cast<std::uint64_t>(reinterpret_cast<Alias>(symbol)(address, length));
}

void* map_device_dmabuf(int fd, std::size_t offset, std::size_t length) noexcept {
    using Map = void* (*)(int, std::size_t, std::size_t);
    void* symbol = driver_symbol("fakecuda_map_dmabuf");
    return symbol ? reinterpret_cast<Map>(symbol)(fd, offset, length) : nullptr;
}

bool is_window_for(int fd, std::uint64_t bridge) noexcept {
    using Window = unsigned (*)(int, unsigned long long*);
    void* symbol = driver_symbol("fakecuda_dmabuf_window");
    if (!symbol) return true;
    constexpr unsigned by_way_of_the_cpu = 1, bar1 = 2;
    unsigned long long of_gpu = 0;
    const unsigned window = reinterpret_cast<Window>(symbol)(fd, &of_gpu);
    const bool below_the_same = bridge != 0 && bridge == of_gpu;
    return window == bar1 ? below_the_same : window != by_way_of_the_cpu || !below_the_same;
}

}  // namespace simefa
