// What an initiator knows of one of its targets.
#pragma once

#include <cstdint>
#include <string>

namespace railyard::flow {

enum class TargetState : std::uint8_t { connecting, connected, gone };

struct TargetReport {
    std::string id;
    TargetState state = TargetState::connecting;
    std::uint32_t under_way = 0;  ///< transfers of grains, or of slices
    std::uint64_t grains = 0;     ///< whole ones that have got there
    std::uint64_t bytes = 0;      ///< that have got there
    std::uint64_t failed = 0;     ///< transfers
    std::uint64_t left_out = 0;   ///< rounds that began while it was not waited for
    std::string error;            ///< what failed last, or why it is gone; empty where nothing has
};

}  // namespace railyard::flow
