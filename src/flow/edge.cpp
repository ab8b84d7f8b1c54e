#include "flow/edge.h"

#include <cstdio>

namespace railyard::flow {
namespace {

thread_local char words[1024];

}  // namespace

void set_last_error(const char* call, const char* text) noexcept {
    std::snprintf(words, sizeof(words), "%s: %s", call, text);
}

const char* last_error() noexcept {
    return words;
}

}  // namespace railyard::flow
