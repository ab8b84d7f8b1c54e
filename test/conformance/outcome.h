// Transfers while something that they need is failing: each of many places in turn, and what must come of it.
#pragma once

#include <chrono>
#include <cstddef>
#include <new>
#include <ostream>
#include <string>
#include <vector>

#include "engine_pair.h"

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

/// One round of what `prepare` makes, to its end; things fail until `stop` is called, which is after `limit`
/// at the latest. The transfer's notification is `text`. Whether its bytes have moved is for the caller to
/// say.
template <class Prepare, class Stop>
Outcome carry_out(EnginePair& pair, const std::string& text, std::chrono::milliseconds limit,
                  Transfer*& transfer, Prepare&& prepare, Stop&& stop) {
    Outcome outcome;
    outcome.status = Status::in_progress;
    std::vector<Notification> got;
    const auto gather = [&] {
        try {
            pair.b->take_notifications(got);
        } catch (const std::bad_alloc&) {
        }
    };
    try {
        transfer = prepare();
        outcome.status = pair.a->post(*transfer);
        const auto end = std::chrono::steady_clock::now() + limit;
        while (outcome.status == Status::in_progress && std::chrono::steady_clock::now() < end) {
            gather();
            outcome.status = pair.a->poll(*transfer);
        }
        gather();
    } catch (const std::bad_alloc&) {
        outcome.refused = true;
    } catch (const Error&) {
        outcome.refused = true;
    }
    stop();
    if (transfer && outcome.status == Status::in_progress && !outcome.refused)
        outcome.status = pair.wait(*transfer);
    if (outcome.status == Status::ok && !outcome.refused) {
        pair.until(
            [&] {
                gather();
                return !got.empty();
            },
            std::chrono::milliseconds(5000));
    }
    for (const Notification& notification : got)
        outcome.notified += notification.message == text ? 1 : 0;
    return outcome;
}

/// `failing(at)` is a round during which the at-th of something fails, which `has_failed` has seen and
/// `where` describes; `sound` one without. Each `stride`th, until nothing is left that could fail. A round
/// that takes `soon` each of three times has waited for what was lost; else the machine may have stopped us.
/// How far it came.
template <class Failing, class HasFailed, class Where, class Sound>
long fail_in_turn(long stride, std::chrono::milliseconds soon, Failing&& failing, HasFailed&& has_failed,
                  Where&& where, Sound&& sound) {
    constexpr long limit = 20'000;
    long at = 0;
    for (int without = 0, failures = 0; without < 3 && failures < 10 && at < limit; at += stride) {
        Outcome outcome;
        const auto carry_on = [&] {
            const auto begin = std::chrono::steady_clock::now();
            outcome = failing(at);
            return std::chrono::steady_clock::now() - begin;
        };
        auto took = carry_on();
        for (int tries = 1; tries < 3 && outcome.honest() && took >= soon && sound() == all_well; ++tries)
            took = carry_on();
        without = has_failed() ? 0 : without + 1;
        const std::string place = has_failed() ? where() : "nothing failed";
        const Outcome after = sound();
        if (outcome.honest() && after == all_well && took < soon) continue;
        ++failures;
        ADD_FAILURE() << "number " << at << ": " << outcome << " after "
                      << std::chrono::duration_cast<std::chrono::milliseconds>(took).count() << " ms, then "
                      << after << "; " << place;
    }
    EXPECT_LT(at, limit) << "it never ends";
    return at;
}

}  // namespace railyard::test
