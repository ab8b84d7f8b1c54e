// Where GPU memory may lie on the two sides of a transfer, and what must come of it and be left behind.
#pragma once

#include <rdma/fi_domain.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fakecuda/nothing_left.h"
#include "gpu_side.h"

namespace railyard::test {

/// Where the two sides' memory lies.
struct Pairing {
    int local = host;  ///< CUDA ordinal, or host
    int remote = host;
};
inline constexpr Pairing pairings[] = {{host, 0}, {0, host}, {0, 1}, {1, 1}};

/// Rails may be given a dmabuf of GPU memory: the library and its headers know them.
inline bool with_dmabuf() {
#ifdef FI_MR_DMABUF
    return fi_version() >= FI_VERSION(1, 20);
#else
    return false;
#endif
}

class GpuMemory : public testing::TestWithParam<GpuFabric> {
  protected:
    void SetUp() override {
        ASSERT_TRUE(fake()) << "the driver that was loaded is not the fake one";
        before_ = fake().statistics();
    }
    void TearDown() override {
        fakecuda::expect_nothing_left(before_, fake().statistics());
        EXPECT_EQ(current_context(), nullptr);
    }

  private:
    fakecuda_statistics before_{};
};

struct Way {
    Operation operation;
    Pairing pairing;
};
inline std::vector<Way> ways() {
    std::vector<Way> all;
    for (const Pairing pairing : pairings) {
        all.push_back({Operation::write, pairing});
        all.push_back({Operation::read, pairing});
    }
    return all;
}

inline std::string describe(const Way& way) {
    return std::string(way.operation == Operation::read ? "READ" : "WRITE") + ", local " +
           std::to_string(way.pairing.local) + ", remote " + std::to_string(way.pairing.remote);
}

/// The bytes of `length` at `offset` on both sides after a transfer, which are to be equal; around them
/// nothing is to have changed.
inline void expect_moved(const Place& from, const Place& to, std::size_t from_offset, std::size_t to_offset,
                         std::size_t length) {
    const std::vector<std::uint8_t> sent = from.content(), got = to.content();
    EXPECT_TRUE(std::equal(sent.begin() + static_cast<std::ptrdiff_t>(from_offset),
                           sent.begin() + static_cast<std::ptrdiff_t>(from_offset + length),
                           got.begin() + static_cast<std::ptrdiff_t>(to_offset)));
    for (std::size_t i = 0; i < got.size(); ++i) {
        if (i >= to_offset && i < to_offset + length) continue;
        if (got[i] == 0) continue;
        ADD_FAILURE() << "byte " << i << " was changed";
        break;
    }
}

}  // namespace railyard::test
