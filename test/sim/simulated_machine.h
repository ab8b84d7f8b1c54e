// What test programs on the simulated EFA machine share: a cluster of their own, and what its NICs count.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "control.h"

namespace railyard::test {

/// The program's cluster, attached from before the first test to after the last one (see main.cpp).
[[nodiscard]] simefa::Control& cluster();

/// What a counter has grown by since this was made.
class Growth {
  public:
    explicit Growth(std::string counter, simefa::NicPattern which = {})
        : counter_(std::move(counter)), which_(std::move(which)), before_(now()) {}
    [[nodiscard]] std::uint64_t value() const { return now() - before_; }

  private:
    [[nodiscard]] std::uint64_t now() const { return cluster().counter(counter_, which_); }

    std::string counter_;
    simefa::NicPattern which_;
    std::uint64_t before_;
};

/// Settings for as long as it lives.
class Disturbance {
  public:
    explicit Disturbance(std::string_view key_value, const simefa::NicPattern& which = {}) {
        cluster().set(key_value, which);
    }
    ~Disturbance() { cluster().reset(); }
    Disturbance(const Disturbance&) = delete;
    Disturbance& operator=(const Disturbance&) = delete;
};

}  // namespace railyard::test
