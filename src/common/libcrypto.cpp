#include "common/libcrypto.h"

#include <dlfcn.h>

#include <type_traits>

namespace railyard {
namespace {

/// Name of the first function that is missing, or nullptr.
const char* fill(Libcrypto& functions, void* library) {
    const char* missing = nullptr;
    auto one = [&](auto& member, const char* name) {
        member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(dlsym(library, name));
        if (!member && !missing) missing = name;
    };
    one(functions.sha256_init, "SHA256_Init");
    one(functions.sha256_update, "SHA256_Update");
    one(functions.sha256_final, "SHA256_Final");
    one(functions.memcmp, "CRYPTO_memcmp");
    return missing;
}

}  // namespace

LibcryptoLookup find_libcrypto(std::span<const char* const> names) {
    std::string because;
    for (const char* name : names) {
        if (!because.empty()) because += "; ";
        void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            const char* why = dlerror();
            because += why ? why : std::string(name) + " cannot be loaded";
            continue;
        }
        Libcrypto functions;
        const char* const missing = fill(functions, library);
        if (!missing) return {functions, {}};
        because += std::string(name) + " has no " + missing;
    }
    return {std::nullopt, because};
}

}  // namespace railyard
