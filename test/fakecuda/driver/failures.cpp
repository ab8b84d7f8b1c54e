#include "failures.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <sstream>
#include <string_view>

namespace fakecuda {
namespace {

/// What it failed to give back would be missed for good.
bool gives_back(std::string_view name) {
    static constexpr std::string_view kinds[] = {"Free",  "Destroy", "Release",        "Unregister",
                                                 "Unmap", "Unload",  "CloseMemHandle", "PopCurrent"};
    return std::any_of(std::begin(kinds), std::end(kinds),
                       [&](std::string_view kind) { return name.find(kind) != std::string_view::npos; });
}

}  // namespace

void Failures::add(const std::string& name, unsigned nth, CUresult error) {
    const std::lock_guard lock(mutex_);
    if (error == CUDA_SUCCESS)
        failures_.erase(name);
    else
        failures_.insert({name, {nth, error}});
}

void Failures::add_all(const std::string& list) {
    std::istringstream entries(list);
    for (std::string entry; std::getline(entries, entry, ',');) {
        const auto colon = entry.find(':'), equals = entry.find('=');
        unsigned nth = 0, error = 0;
        if (colon == std::string::npos || equals == std::string::npos || equals < colon ||
            std::sscanf(entry.c_str() + colon, ":%u=%u", &nth, &error) != 2) {
            std::fprintf(stderr, "fakecuda: FAKECUDA_FAIL: \"%s\" is not NAME:NTH=ERROR\n", entry.c_str());
            continue;
        }
        add(entry.substr(0, colon), nth, static_cast<CUresult>(error));
    }
}

void Failures::add_any(unsigned nth, CUresult error, bool lasting) {
    const std::lock_guard lock(mutex_);
    any_ = {nth, error};
    any_lasts_ = lasting;
    any_failed_ = nullptr;
}

void Failures::clear() {
    const std::lock_guard lock(mutex_);
    failures_.clear();
    any_ = {0, CUDA_SUCCESS};
}

CUresult Failures::take(std::string name) {
    if (name.size() > 3 && name[name.size() - 3] == '_' && name[name.size() - 2] == 'v')
        name.resize(name.size() - 3);
    const std::lock_guard lock(mutex_);
    auto [at, end] = failures_.equal_range(name);
    CUresult result = CUDA_SUCCESS;
    while (at != end) {
        Failure& failure = at->second;
        if (failure.nth > 1) {
            --failure.nth;
            ++at;
            continue;
        }
        result = failure.error;
        at = failure.nth == 0 ? std::next(at) : failures_.erase(at);
    }
    return result;
}

CUresult Failures::take_any(const char* name) {
    if (gives_back(name)) return CUDA_SUCCESS;
    const std::lock_guard lock(mutex_);
    if (any_.nth == 0 || --any_.nth != 0) return CUDA_SUCCESS;
    if (any_lasts_) any_.nth = 1;
    if (!any_failed_) any_failed_ = name;
    return any_.error;
}

const char* Failures::any_failed() {
    const std::lock_guard lock(mutex_);
    return any_failed_;
}

}  // namespace fakecuda
