// What has come of a transfer while something that it needs was failing.
#pragma once

#include <cstddef>
#include <ostream>

#include "common/status.h"

namespace railyard::test {

struct Outcome {
    bool refused = false;  ///< by an exception
    Status status = Status::ok;
    std::size_t notified = 0;
    bool moved = false;

    /// Nothing was reported to have succeeded that has not.
    [[nodiscard]] bool honest() const {
        return refused || status != Status::ok || *this == Outcome{false, Status::ok, 1, true};
    }
    bool operator==(const Outcome&) const = default;
    friend std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
        return out << (outcome.refused ? "refused" : to_string(outcome.status)) << ", notified "
                   << outcome.notified << " times, " << (outcome.moved ? "" : "not ") << "moved";
    }
};
inline constexpr Outcome all_well{false, Status::ok, 1, true};

}  // namespace railyard::test
