#include "shrink.h"

#include <algorithm>
#include <utility>

namespace railyard::fault {
namespace {

class Shrinker {
  public:
    Shrinker(Schedule schedule, const std::function<bool(const Schedule&)>& fails,
             const std::function<bool()>& may_go_on)
        : best_(std::move(schedule)), fails_(fails), may_go_on_(may_go_on) {}

    Schedule run() {
        bool better = true;
        while (better && may_go_on_()) {
            better = drop(&Schedule::steps);
            better = drop(&Schedule::transfers) || better;
            better = simplify() || better;
        }
        return std::move(best_);
    }

  private:
    bool keep(Schedule candidate) {
        if (!may_go_on_() || !fails_(candidate)) return false;
        best_ = std::move(candidate);
        return true;
    }

    /// Leaves out stretches, long ones first.
    template <class Item>
    bool drop(std::vector<Item> Schedule::*list) {
        bool better = false;
        for (std::size_t length = std::max<std::size_t>((best_.*list).size() / 2, 1);; length /= 2) {
            for (std::size_t at = 0; at < (best_.*list).size();) {
                Schedule candidate = best_;
                auto& items = candidate.*list;
                const std::size_t end = std::min(at + length, items.size());
                items.erase(items.begin() + static_cast<std::ptrdiff_t>(at),
                            items.begin() + static_cast<std::ptrdiff_t>(end));
                if (keep(std::move(candidate))) {
                    better = true;
                } else {
                    at += length;
                }
                if (!may_go_on_()) return better;
            }
            if (length <= 1) return better;
        }
    }

    template <class Change>
    bool change(Change apply) {
        Schedule candidate = best_;
        return apply(candidate) && keep(std::move(candidate));
    }

    bool simplify() {
        bool better = change([](Schedule& schedule) {
            if (schedule.threads == 1) return false;
            schedule.threads = 1;
            for (Step& step : schedule.steps)
                step.thread = std::min(step.thread, 0);
            return true;
        });
        for (std::size_t i = 0; i < best_.engines.size(); ++i) {
            better = change([&](Schedule& schedule) {
                         return std::exchange(schedule.engines[i].progress_thread, false);
                     }) ||
                     better;
            better = change([&](Schedule& schedule) {
                         if (schedule.engines[i].rails <= 1) return false;
                         --schedule.engines[i].rails;
                         return true;
                     }) ||
                     better;
            better = change([&](Schedule& schedule) {
                         return std::exchange(schedule.engines[i].xfer_timeout_ms, 0) != 0;
                     }) ||
                     better;
        }
        better = change([](Schedule& schedule) {
                     int secrets = 0;
                     for (EngineSpec& engine : schedule.engines)
                         secrets += std::exchange(engine.secret, 0) != 0;
                     return secrets > 0;
                 }) ||
                 better;
        for (std::size_t i = 0; i < best_.transfers.size(); ++i)
            better = simplify_transfer(i) || better;
        return better;
    }

    bool simplify_transfer(std::size_t index) {
        bool better = change([&](Schedule& schedule) {
            return std::exchange(schedule.transfers[index].notification, -1) != -1;
        });
        better = change([&](Schedule& schedule) {
                     auto& sizes = schedule.transfers[index].sizes;
                     if (sizes.size() < 2) return false;
                     sizes.resize(sizes.size() / 2);
                     return true;
                 }) ||
                 better;
        return change([&](Schedule& schedule) {
                   bool smaller = false;
                   for (std::uint32_t& size : schedule.transfers[index].sizes) {
                       smaller = smaller || size > 1;
                       size = std::max(size / 2, std::min(size, 1U));
                   }
                   return smaller;
               }) ||
               better;
    }

    Schedule best_;
    const std::function<bool(const Schedule&)>& fails_;
    const std::function<bool()>& may_go_on_;
};

}  // namespace

Schedule shrink(Schedule schedule, const std::function<bool(const Schedule&)>& fails,
                const std::function<bool()>& may_go_on) {
    return Shrinker(std::move(schedule), fails, may_go_on).run();
}

}  // namespace railyard::fault
