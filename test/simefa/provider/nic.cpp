#include "provider/nic.h"

#include <atomic>
#include <functional>
#include <string_view>

#include "provider/environment.h"

namespace simefa {
namespace {

/// Another stream of chance for each NIC, host and domain opened, the same in every run with one seed.
std::uint64_t seed_for(const std::string& nic) {
    static std::atomic<std::uint64_t> opened{0};
    std::uint64_t seed = environment().seed + 0x51ed270b * opened.fetch_add(1);
    for (const char c : environment().host + "/" + nic)
        seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    return seed;
}

}  // namespace

Nic::Nic(const NicDescription& description)
    : description_(description),
      cluster_(Cluster::attach(environment().cluster)),
      slot_(cluster_->nic(environment().host, description.name, environment().initial)),
      epoch_(slot_.epoch.load()),
      random_(seed_for(description.name)) {
    reload();
}

void Nic::reload() noexcept {
    epoch_ = slot_.epoch.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < setting_count; ++i)
        settings_[i] = slot_.settings[i].load(std::memory_order_relaxed);
}

bool Nic::strikes(Setting probability, Setting next) noexcept {
    if (get(probability) != 0 && random_.below(1'000'000) < get(probability)) return true;
    return strikes(next);
}

bool Nic::strikes(Setting next) noexcept {
    if (get(next) == 0) return false;
    auto& left = slot_.settings[static_cast<std::size_t>(next)];
    std::uint64_t count = left.load(std::memory_order_relaxed);
    while (count > 0) {
        if (left.compare_exchange_weak(count, count - 1, std::memory_order_relaxed)) return true;
    }
    settings_[static_cast<std::size_t>(next)] = 0;
    return false;
}

}  // namespace simefa
