#include "context_lock.h"

#include <algorithm>
#include <iterator>

namespace fakecuda {
namespace {

bool about_the_thread(std::string_view function) {
    static constexpr std::string_view names[] = {"PushCurrent", "PopCurrent", "GetCurrent",
                                                 "ExchangeStreamCaptureMode"};
    return std::any_of(std::begin(names), std::end(names),
                       [&](std::string_view name) { return function.find(name) != std::string_view::npos; });
}

}  // namespace

void ContextLocks::take(CUcontext context) {
    std::unique_lock lock(mutex_);
    released_.wait(lock, [&] { return !holders_.contains(context); });
    holders_[context] = std::this_thread::get_id();
    ++taken_;
}

void ContextLocks::release(CUcontext context) {
    const std::lock_guard lock(mutex_);
    holders_.erase(context);
    --taken_;
    released_.notify_all();
}

void ContextLocks::pass(CUcontext context, std::string_view function) {
    if (taken_ == 0 || about_the_thread(function)) return;
    std::unique_lock lock(mutex_);
    const auto free = [&] {
        const auto holder = holders_.find(context);
        return holder == holders_.end() || holder->second == std::this_thread::get_id();
    };
    if (free()) return;
    ++held_up_;
    released_.wait(lock, free);
}

}  // namespace fakecuda
