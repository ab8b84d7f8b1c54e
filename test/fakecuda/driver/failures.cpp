#include "failures.h"

#include <cstdio>
#include <sstream>

namespace fakecuda {

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

void Failures::clear() {
    const std::lock_guard lock(mutex_);
    failures_.clear();
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

}  // namespace fakecuda
