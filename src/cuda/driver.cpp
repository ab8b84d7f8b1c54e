#include "cuda/driver.h"

#include <dlfcn.h>

#include <atomic>

#include "common/log.h"
#include "common/status.h"

namespace railyard::cuda {
namespace {

#ifdef RAILYARD_WITHOUT_CUDA

DriverLookup look() {
    return {std::nullopt, "built without CUDA"};
}

#else

/// Both forms of the driver's own look-up; those before 12.0 have the first alone.
using FindOld = CUresult(CUDAAPI*)(const char*, void**, int, cuuint64_t);
using FindNew = CUresult(CUDAAPI*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

class Finder {
  public:
    explicit Finder(void* library)
        : find_new_(reinterpret_cast<FindNew>(dlsym(library, "cuGetProcAddress_v2"))),
          find_old_(reinterpret_cast<FindOld>(dlsym(library, "cuGetProcAddress"))) {}

    [[nodiscard]] bool works() const { return find_new_ || find_old_; }

    [[nodiscard]] void* find(const char* name, int version) const {
        void* found = nullptr;
        CUdriverProcAddressQueryResult status{};
        const CUresult result = find_new_
                                    ? find_new_(name, &found, version, CU_GET_PROC_ADDRESS_DEFAULT, &status)
                                    : find_old_(name, &found, version, CU_GET_PROC_ADDRESS_DEFAULT);
        return result == CUDA_SUCCESS ? found : nullptr;
    }

  private:
    FindNew find_new_;
    FindOld find_old_;
};

enum class Need { required, optional };

/// Name of the first required function that is missing, or nullptr.
const char* fill(Driver& driver, const Finder& finder) {
    const char* missing = nullptr;
    auto one = [&](auto& member, const char* name, int version, Need need) {
        member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(finder.find(name, version));
        if (!member && need == Need::required && !missing) missing = name;
    };
#define RAILYARD_CUDA_FUNCTION(member, name, text, version, need) \
    one(driver.member, text, version, Need::need);
#include "cuda/functions.def"
#undef RAILYARD_CUDA_FUNCTION
    return missing;
}

DriverLookup look() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char* why = dlerror();
        return {std::nullopt, why ? why : "libcuda.so.1 cannot be loaded"};
    }
    const Finder finder(library);
    if (!finder.works()) return {std::nullopt, "the driver is older than CUDA 11.3"};
    Driver driver;
    if (const char* missing = fill(driver, finder))
        return {std::nullopt, std::string("the driver has no ") + missing + ": it is too old"};
    int count = 0;
    const char* call = "cuInit";
    CUresult result = driver.init(0);
    if (result == CUDA_SUCCESS) result = driver.driver_get_version(&driver.version);
    if (result == CUDA_SUCCESS) {
        call = "cuDeviceGetCount";
        result = driver.device_get_count(&count);
    }
    if (result != CUDA_SUCCESS) return {std::nullopt, std::string(call) + ": " + describe(driver, result)};
    if (count == 0) return {std::nullopt, "the driver shows no device; look at CUDA_VISIBLE_DEVICES"};
    return {driver, {}};
}

#endif

}  // namespace

DriverLookup find_driver() {
    DriverLookup found = look();
    static std::atomic<bool> said{false};
    if (!found.driver && !said.exchange(true))
        RAILYARD_LOG(info, "cuda", "no GPU memory: %s", found.absent_because.c_str());
    return found;
}

bool finds_runtime() noexcept {
    void* const library = dlopen("libcudart.so", RTLD_LAZY | RTLD_LOCAL);
    if (library) dlclose(library);
    return library != nullptr;
}

std::string built_with() {
#if defined(RAILYARD_WITHOUT_CUDA)
    return "without CUDA";
#elif defined(RAILYARD_OWN_CUDA_ABI)
    return "own declarations";
#else
    return "CUDA " + std::to_string(CUDA_VERSION / 1000) + "." + std::to_string(CUDA_VERSION % 1000 / 10) +
           " headers";
#endif
}

const char* error_name(const Driver& driver, unsigned result) noexcept {
    const char* name = nullptr;
    driver.get_error_name(static_cast<CUresult>(result), &name);
    return name ? name : "unknown error";
}

bool ends_context(unsigned result) noexcept {
    switch (result) {
        case CUDA_ERROR_DEINITIALIZED:
        case CUDA_ERROR_INVALID_CONTEXT:
        case CUDA_ERROR_CONTEXT_IS_DESTROYED:
        case CUDA_ERROR_ECC_UNCORRECTABLE:
        case CUDA_ERROR_NVLINK_UNCORRECTABLE:
        case CUDA_ERROR_ILLEGAL_ADDRESS:
        case CUDA_ERROR_LAUNCH_TIMEOUT:
        case CUDA_ERROR_ASSERT:
        case CUDA_ERROR_HARDWARE_STACK_ERROR:
        case CUDA_ERROR_ILLEGAL_INSTRUCTION:
        case CUDA_ERROR_MISALIGNED_ADDRESS:
        case CUDA_ERROR_INVALID_ADDRESS_SPACE:
        case CUDA_ERROR_INVALID_PC:
        case CUDA_ERROR_LAUNCH_FAILED:
            return true;
        default:
            return false;
    }
}

std::string describe(const Driver& driver, CUresult result) {
    const char *name = nullptr, *text = nullptr;
    driver.get_error_name(result, &name);
    driver.get_error_string(result, &text);
    if (!name) return "CUDA error " + std::to_string(static_cast<unsigned>(result));
    return std::string(name) + (text ? std::string(" (") + text + ")" : "");
}

void check(const Driver& driver, CUresult result, const char* call) {
    if (result != CUDA_SUCCESS)
        throw Error(Status::backend, std::string(call) + ": " + describe(driver, result));
}

}  // namespace railyard::cuda
