// What a rail of a test has to have and does not care for.
#pragma once

#include <string>
#include <string_view>

#include "rail/rail.h"

namespace railyard {

class StubRail : public Rail {
  public:
    using Rail::Rail;
    RegisteredMemory register_memory(const MemoryRange&) override { return {}; }
    [[nodiscard]] std::string address() const override { return {}; }
    [[nodiscard]] std::uint64_t max_chunk() const noexcept override { return 1; }

  private:
    PeerAddress do_insert_peer(std::string_view) override { return 0; }
    void do_remove_peer(PeerAddress) noexcept override {}
};

}  // namespace railyard
