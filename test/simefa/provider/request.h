// One call that posts, whichever of libfabric's many spellings it had.
#pragma once

#include <rdma/fi_endpoint.h>

#include <cstddef>
#include <cstdint>

#include "provider/operation.h"

namespace simefa {

struct Request {
    Operation::Kind kind = Operation::Kind::send;
    const iovec* iov = nullptr;
    void* const* descriptors = nullptr;
    std::size_t count = 0;
    fi_addr_t peer = FI_ADDR_UNSPEC;
    std::uint64_t remote = 0, remote_length = 0, key = 0;
    std::uint64_t data = 0;
    std::uint64_t tag = 0, ignore = 0;
    void* context = nullptr;
    std::uint64_t flags = 0;
    bool tagged = false;
    bool inject_call = false;  ///< fi_inject and its kin: no completion at all

    [[nodiscard]] std::uint64_t length() const noexcept {
        std::uint64_t bytes = 0;
        for (std::size_t i = 0; i < count; ++i)
            bytes += iov[i].iov_len;
        return bytes;
    }
};

}  // namespace simefa
