// One libFuzzer program; RAILYARD_FUZZ_TARGET is its target's function.
#include "common/log.h"
#include "targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const bool quiet = [] {
        railyard::log::set_level(railyard::log::Level::off);
        return true;
    }();
    static_cast<void>(quiet);
    railyard::fuzz::RAILYARD_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
    return 0;
}
