#include "player.h"

#include <cstdio>
#include <thread>

#include "common/log.h"

namespace railyard::fault {
namespace {

using Clock = std::chrono::steady_clock;

/// For what lands late, or twice, once everything is over.
constexpr auto settling = std::chrono::milliseconds(6);
constexpr int settling_passes = 40;
/// For a transfer to end in once its xfer_timeout_ms are over and its engine is driven: 0.25 s until the
/// engine looks, 0.22 s to close what it left from, and the rest for busy machines.
constexpr auto ending = std::chrono::seconds(5);

/// Another thread has failed: this one has nothing more to say.
struct Stopped {};

}  // namespace

std::chrono::milliseconds Player::Handle::taken() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - posted);
}

Player::Player(const Schedule& schedule, const PlayOptions& options, Counts& counts,
               std::function<void(const Failure&)> hung)
    : schedule_(schedule),
      options_(options),
      counts_(counts),
      hung_(std::move(hung)),
      oracle_(schedule, counts) {
    for (const TransferSpec& spec : schedule.transfers)
        handles_[spec.id];
}

Player::~Player() = default;

void Player::play() {
    log::Level level = log::Level::off;
    log::parse_level(options_.log_level, level);
    log::set_level(level);
    world_.emplace(schedule_, oracle_);
    std::vector<std::thread> threads;
    for (int thread = 1; thread < schedule_.threads; ++thread)
        threads.emplace_back([this, thread] { run_thread(thread); });
    run_thread(0);
    for (std::thread& thread : threads)
        thread.join();
    if (failure_) throw Failure(*failure_);
    finish();
}

void Player::give_up(const Failure& failure) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = failure;
    failed_ = true;
    met_.notify_all();
}

void Player::run_thread(int thread) {
    try {
        for (const Step& step : schedule_.steps) {
            if (failed_) return;
            if (step.thread == thread) {
                do_step(step, thread);
                ++counts_.steps;
            } else if (step.thread == everybody) {
                std::unique_lock lock(mutex_);
                meet(lock);
                if (thread == 0) {
                    lock.unlock();
                    do_step(step, everybody);
                    ++counts_.steps;
                    lock.lock();
                }
                meet(lock);
            }
        }
    } catch (const Stopped&) {
    } catch (const Failure& failure) {
        give_up(failure);
    } catch (const std::exception& error) {
        give_up({Wrong::exception, error.what()});
    }
}

void Player::meet(std::unique_lock<std::mutex>& lock) {
    const int meeting = meetings_;
    if (++waiting_ == schedule_.threads) {
        waiting_ = 0;
        ++meetings_;
        met_.notify_all();
        return;
    }
    met_.wait(lock, [&] { return meetings_ != meeting || failed_; });
    if (failed_) throw Stopped();
}

void Player::trace(const std::string& text) {
    if (!options_.trace) return;
    std::printf("  %s\n", text.c_str());
    std::fflush(stdout);
}

const TransferSpec* Player::spec_of(int id) const {
    for (const TransferSpec& spec : schedule_.transfers) {
        if (spec.id == id) return &spec;
    }
    return nullptr;
}

void Player::do_step(const Step& step, int thread) {
    trace(to_text(step));
    const std::vector<int>& n = step.numbers;
    switch (step.verb) {
        case Verb::post:
            return post(n[0], thread);
        case Verb::wait:
            return wait(n[0], thread);
        case Verb::release:
            return on(thread, n[0]) ? release(n[0]) : void();
        case Verb::drive:
            for (int i = 0; i < n[0]; ++i)
                pass(thread);
            return;
        case Verb::check:
            return oracle_.check_memory();
        default:
            break;
    }
    for (std::size_t i = 0;
         i <
         (step.verb == Verb::connect || step.verb == Verb::disconnect || step.verb == Verb::notify ? 2U : 1U);
         ++i) {
        if (n[i] < 0 || n[i] >= static_cast<int>(schedule_.engines.size())) return;
    }
    do_for_all(step);
}

void Player::do_for_all(const Step& step) {
    const std::vector<int>& n = step.numbers;
    switch (step.verb) {
        case Verb::notify:
            return world_->notify(n[0], n[1], n[2], n[3]);
        case Verb::fault:
            return world_->fault(n[0], n[1], step.setting);
        case Verb::calm:
            return world_->calm(n[0], n[1]);
        case Verb::destroy:
            for (auto& [id, handle] : handles_) {
                if (spec_of(id)->from != n[0]) continue;
                handle = {};  // it goes with its engine, which ends nothing
            }
            return world_->destroy(n[0]);
        case Verb::create:
            return world_->create(n[0]);
        case Verb::disconnect:
            return world_->disconnect(n[0], n[1]);
        case Verb::connect:
            return world_->connect(n[0], n[1]);
        case Verb::deregister:
            return world_->deregister(n[0], n[1] % region_slots);
        case Verb::enlist:
            return world_->enlist(n[0], n[1] % region_slots);
        default:
            return;
    }
}

void Player::post(int id, int thread) {
    const TransferSpec* spec = spec_of(id);
    if (!spec || !on(thread, id)) return;
    const auto before = handles_.find(id);
    if (before != handles_.end() && before->second.in_flight) wait(id, thread);
    if (oracle_.spent(id)) return;  // perhaps since just now
    Handle& handle = handles_[id];
    if (!handle.transfer) handle.transfer = world_->prepare(*spec);
    if (!handle.transfer) return;
    const std::string message = oracle_.begin_round(id);
    handle.in_flight = true;
    handle.posted = Clock::now();
    const Status status =
        world_->engine(spec->from)->post(*handle.transfer, message.empty() ? nullptr : &message);
    if (status == Status::in_progress) return;
    handle.in_flight = false;
    trace("transfer " + std::to_string(id) + " ended at once: " + railyard::to_string(status));
    oracle_.end_round(id, status, handle.taken());
}

void Player::poll(int id, Handle& handle) {
    const Status status = world_->engine(spec_of(id)->from)->poll(*handle.transfer);
    if (status == Status::in_progress) return;
    handle.in_flight = false;
    const auto taken = handle.taken();
    trace("transfer " + std::to_string(id) + " ended: " + railyard::to_string(status) + ", " +
          std::to_string(taken.count()) + " ms");
    oracle_.end_round(id, status, taken);
}

void Player::pass(int thread) {
    if (failed_ && thread != everybody) throw Stopped();
    world_->drive();
    for (auto& [id, handle] : handles_) {
        if (on(thread, id) && handle.in_flight) poll(id, handle);
    }
}

void Player::until(int thread, std::chrono::milliseconds limit, const std::function<bool()>& over,
                   const std::function<Failure()>& what) {
    const auto end = Clock::now() + limit;
    while (!over()) {
        pass(thread);
        if (Clock::now() < end) continue;
        const Failure failure = what();
        give_up(failure);
        hung_(failure);
        throw failure;
    }
}

std::chrono::milliseconds Player::limit_of(const TransferSpec& spec) const {
    const int timeout = schedule_.engines[static_cast<std::size_t>(spec.from)].xfer_timeout_ms;
    if (!timeout || spec.from == spec.to) return options_.limit;
    return std::min<std::chrono::milliseconds>(options_.limit, std::chrono::milliseconds(timeout) + ending);
}

void Player::wait(int id, int thread) {
    const TransferSpec* spec = spec_of(id);
    if (!spec || !on(thread, id)) return;
    Handle& handle = handles_[id];
    const auto limit = limit_of(*spec);
    until(
        thread, limit, [&] { return !handle.in_flight; },
        [&] {
            return Failure(Wrong::hang, "transfer " + std::to_string(id) + " has not ended in " +
                                            std::to_string(limit.count()) + " ms");
        });
}

void Player::release(int id) {
    const TransferSpec* spec = spec_of(id);
    if (!spec || !handles_[id].transfer) return;
    const Handle handle = handles_[id];
    handles_[id] = {};
    world_->engine(spec->from)->release(handle.transfer);
    oracle_.released(id, handle.in_flight);
}

void Player::finish() {
    trace("all calm, the end");
    world_->calm_all();
    for (auto& [id, handle] : handles_)
        wait(id, everybody);
    until(
        everybody, options_.limit, [&] { return oracle_.missing().empty(); },
        [&] { return Failure(Wrong::lost, "did not come: " + oracle_.missing()); });
    const auto settled = Clock::now() + settling;
    for (int i = 0; i < settling_passes || Clock::now() < settled; ++i)
        pass(everybody);
    oracle_.check_memory();
    for (auto& [id, handle] : handles_)
        release(id);
    world_.reset();
    oracle_.check_memory();
}

}  // namespace railyard::fault
