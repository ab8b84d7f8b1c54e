// What a rail has done since it was opened.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/status.h"

namespace railyard {

/// Of a rail's control messages; role holder only, as all of it.
struct ControlCounters {
    std::uint64_t fragments_sent = 0, bytes_sent = 0;  ///< that have arrived, as far as the provider says
    std::uint64_t fragments_received = 0, bytes_received = 0;
    std::uint64_t refusals = 0;  ///< EAGAIN
    std::uint64_t repeats = 0;   ///< fragments that were sent again
    std::uint64_t errors = 0;    ///< sends that ended with an error or were not taken

    void count_sent(bool well, std::size_t bytes) noexcept {
        ++(well ? fragments_sent : errors);
        if (well) bytes_sent += bytes;
    }
};

struct RailCounters {
    std::uint64_t operations[2] = {0, 0}, bytes[2] = {0, 0};  ///< by Work::Kind; of those that ended well
    std::uint64_t refusals = 0;                               ///< EAGAIN
    std::uint64_t repeats = 0;                                ///< operations that were carried out again here
    std::uint64_t failovers = 0;     ///< chunks, and rests of lanes, that another rail was given
    std::uint64_t disconnected = 0;  ///< operations and posts that ended with remote_disconnect
    std::uint64_t failed = 0;        ///< with any other error
    std::uint64_t contended = 0;     ///< times that a thread of the application found another one at work
    std::uint64_t leases_ended = 0;  ///< times that the rail changed hands between threads
    ControlCounters control;

    void count_error(Status status) noexcept {
        ++(status == Status::remote_disconnect ? disconnected : failed);
    }
};

}  // namespace railyard
