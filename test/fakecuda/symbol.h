// What programs call of the CUDA driver.
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace railyard::test {

/// A driver function that the project itself does not call.
inline void* symbol(const char* name) {
    void* found = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), name);
    if (!found) throw std::runtime_error(std::string("no ") + name);
    return found;
}

}  // namespace railyard::test
