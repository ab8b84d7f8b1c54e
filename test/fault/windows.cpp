#include "windows.h"

#include <algorithm>

#include "manager/lane_plan.h"

namespace railyard::fault {

void Windows::open(const Window& window) {
    windows_.push_back(window);
    ++seen_[static_cast<std::size_t>(window.fault)];
}

void Windows::close_nic(int engine, int rail, Tick now) {
    for (Window& window : windows_) {
        if (window.engine == engine && window.rail == rail) window.to = std::min(window.to, now);
    }
}

void Windows::close(Fault fault, int engine, int other, Tick now) {
    for (Window& window : windows_) {
        if (window.fault == fault && window.engine == engine && window.other == other)
            window.to = std::min(window.to, now);
    }
}

void Windows::close_all(Tick now) {
    for (Window& window : windows_)
        window.to = std::min(window.to, now);
}

/// `for_good`: to the end of the run, from its beginning on.
bool Windows::touches(const Window& window, const Concern& concern, bool for_good) const {
    const bool here = window.engine == concern.from || window.engine == concern.to;
    Tick since = concern.begun;
    switch (window.fault) {
        case Fault::restart:
            since = concern.prepared;
            break;
        case Fault::disconnect:
        case Fault::secret: {
            const bool pair = (window.engine == concern.from && window.other == concern.to) ||
                              (window.engine == concern.to && window.other == concern.from);
            if (!pair) return false;
            since = concern.prepared;
            break;
        }
        case Fault::timeout:
            if (window.engine != concern.from || !concern.timed_out) return false;
            break;
        case Fault::deregister:
            if (window.other != concern.slot && !needs_driving(concern)) return false;
            for_good = for_good || needs_driving(concern);  // one that was given up is back after a probe
            since = concern.prepared;
            break;
        default:
            break;
    }
    const Tick to = for_good ? for_ever : window.to;
    return here && window.from <= concern.ended && since <= to;
}

/// While a deregistration waits for transfers, its thread drives nobody: peers without a progress thread are
/// silent.
bool Windows::needs_driving(const Concern& concern) const {
    const auto& engines = schedule_.engines;
    return !engines[static_cast<std::size_t>(concern.from)].progress_thread ||
           !engines[static_cast<std::size_t>(concern.to)].progress_thread;
}

bool Windows::rail_hit(int engine, int rail, const Concern& concern) const {
    return std::any_of(windows_.begin(), windows_.end(), [&](const Window& window) {
        const Rule& rule = rule_of(window.fault);
        return window.engine == engine && window.rail == rail && rule.errors == Errors::without_path &&
               touches(window, concern, rule.lasting);
    });
}

bool Windows::no_path_left(const Concern& concern) const {
    const auto rails = [&](int engine) {
        return rail_range(
            static_cast<std::size_t>(schedule_.engines[static_cast<std::size_t>(engine)].rails));
    };
    const std::vector<RailPair> pairs = pair_rails(rails(concern.from), rails(concern.to));
    return std::all_of(pairs.begin(), pairs.end(), [&](const RailPair& pair) {
        return rail_hit(concern.from, pair.local, concern) || rail_hit(concern.to, pair.remote, concern);
    });
}

bool Windows::explain_error(const Concern& concern) const {
    for (const Window& window : windows_) {
        const Rule& rule = rule_of(window.fault);
        if (rule.errors == Errors::allowed && touches(window, concern, rule.lasting)) return true;
    }
    return no_path_left(concern);
}

bool Windows::any(const Concern& concern, bool Rule::*allowance) const {
    for (const Window& window : windows_) {
        const Rule& rule = rule_of(window.fault);
        if (rule.*allowance && touches(window, concern, rule.lasting)) return true;
    }
    return false;
}

}  // namespace railyard::fault
