#include "flow/target.h"

#include <algorithm>
#include <utility>

#include "common/clock.h"
#include "common/log.h"
#include "manager/registration.h"

namespace railyard::flow {
namespace {

/// Sleepers are rung for grains, and look so often all the same.
constexpr std::uint32_t sleep_ms = 50;
/// What the engine does besides its rails, where an application looks for grains all the time: a third of a
/// look. A grain that has come is handed over first. Where looks are rare, the progress thread does it.
constexpr std::uint32_t looks_per_rest = 8;
constexpr std::uint32_t most_looks_per_rest = 64;
/// For units of the opening before, which other rails may have brought and nobody has seen.
constexpr std::uint64_t catch_up_limit_ns = 50'000'000;
/// For sources that are gone.
constexpr std::uint64_t gone_look_ns = 1'000'000'000;

}  // namespace

Target::Target(const SideConfig& config) : side_("target", config) {
    const auto grains = side_.grains();
    static_cast<void>(
        GrainGeometry::choose(grains, side_.grain_length(), config.slices, side_.grain_length()));
    info_.slices = config.slices;
    info_.connection = decode_connection(side_.engine().connection_info());
    for (const auto& region : side_.regions()) {
        if (!region->writable)
            throw Error(Status::invalid_param, "a region is read-only memory: grains cannot arrive there");
        MemoryInfo& info = info_.regions.emplace_back(decode_memory(side_.engine().memory_metadata(*region)));
        // Grains are told of by immediate data, which copies by a GPU do not carry.
        if (info.shared && !info.staged && !info.needs_flush) info.token = 0;
        info.shared.reset();
    }
    board_.wake(&side_);
    side_.engine().hear_immediates(board_);
    side_.engine().set_chore(this, Engine::ChoreTime::notifications);
}

Target::~Target() {
    side_.engine().set_chore(nullptr);
    board_.wake(nullptr);
    const MutexLock lock(mutex_);
    for (const Source& source : sources_) {
        if (source.connected) take_leave_of(source);
    }
}

void Target::look_for_grains() noexcept {
    side_.engine().progress_rails();
    // Roughly: two threads at once may count one.
    const std::uint32_t looks = looks_.load(std::memory_order_relaxed) + 1;
    const bool rest = looks >= (board_.empty() ? looks_per_rest : most_looks_per_rest);
    looks_.store(rest ? 0 : looks, std::memory_order_relaxed);
    if (rest) side_.engine().progress_rest();
}

Outcome Target::try_new_grain(GrainBoard::Arrived& grain) {
    if (board_.empty()) look_for_grains();
    std::optional<GrainBoard::Arrived> arrived;
    if (!board_.empty()) arrived = board_.pop();
    if (!arrived) {
        if (!side_.rest()) return Outcome::not_ready;
        arrived = board_.pop();
        if (!arrived) return Outcome::not_ready;
        wake_another();
    }
    grain = *arrived;
    if (is_set_aside(grain.source)) tell_later(grain.source);
    return Outcome::ok;
}

Outcome Target::wait_for_new_grain(GrainBoard::Arrived& grain, std::uint32_t timeout_ms) {
    const auto over = [&] {
        const auto arrived = board_.pop();
        if (arrived) grain = *arrived;
        return arrived.has_value();
    };
    if (timeout_ms == 0) return try_new_grain(grain) == Outcome::ok ? Outcome::ok : Outcome::timeout;
    const Outcome outcome = side_.wait(over, timeout_ms, sleep_ms);
    if (outcome != Outcome::ok) return outcome;
    wake_another();
    if (is_set_aside(grain.source)) tell_later(grain.source);
    return outcome;
}

/// All sleep by one bell: who hears it first takes one grain, however often it was rung.
void Target::wake_another() noexcept {
    if (!board_.empty() && side_.has_sleepers()) side_.ring();
}

std::vector<SourceReport> Target::sources() {
    std::vector<SourceReport> reports;
    // Released without the lock: a release may make a pass, which handles letters.
    std::vector<Transfer*> unwatched;
    {
        const MutexLock lock(mutex_);
        unwatched.reserve(most_sources);
        note_the_gone(&unwatched);
        for (std::uint32_t id = 0; id < most_sources; ++id) {
            const Source& source = sources_[id];
            if (!source.name.empty())
                reports.push_back({id, source.connected, source.name, board_.counters(id)});
        }
    }
    side_.engine().release(unwatched);
    return reports;
}

bool Target::run() noexcept {
    look_for_the_gone();
    // Again after each time: what came for another thread, which left it to us, is not left to the next pass.
    while (side_.engine().has_notifications() || has_left_.load(std::memory_order_relaxed) ||
           untold_.load(std::memory_order_relaxed) != 0) {
        if (handling_.exchange(true)) return false;  // also ourselves, from further up
        bool left = false;
        try {
            side_.read_letters(letters_, [&](const std::string& sender, const FlowLetter& letter) {
                handle(sender, letter);
            });
        } catch (const std::exception& error) {
            RAILYARD_LOG(debug, side_.name().c_str(), "messages of initiators wait: %s", error.what());
            left = true;
        }
        leave_letters(left);
        tell_the_set_aside();
        handling_.store(false);
        if (left) return true;
    }
    return false;
}

void Target::look_for_the_gone() noexcept {
    const std::uint64_t now = now_ns();
    if (now < next_look_ns_.load(std::memory_order_relaxed)) return;
    if (handling_.exchange(true)) return;
    next_look_ns_.store(now + gone_look_ns, std::memory_order_relaxed);
    {
        const MutexLock lock(mutex_);
        note_the_gone();
    }
    handling_.store(false);
}

/// Those that there was no memory for are looked at in the next pass, in which none may have come.
void Target::leave_letters(bool any) noexcept {
    if (has_left_.exchange(any, std::memory_order_relaxed) == any) return;
    choose_chore_time();
}

/// In this order: who adds something to do meanwhile turns it back.
void Target::choose_chore_time() noexcept {
    side_.engine().set_chore_time(Engine::ChoreTime::notifications);
    if (has_left_.load(std::memory_order_relaxed) || untold_.fetch_or(0, std::memory_order_acq_rel) != 0)
        side_.engine().set_chore_time(Engine::ChoreTime::always);
}

void Target::tell_later(std::uint32_t id) noexcept {
    untold_.fetch_or(1u << id, std::memory_order_acq_rel);
    side_.engine().set_chore_time(Engine::ChoreTime::always);
}

/// In passes alone, where letters are handled: an OPEN of the same initiator is before this or after it.
void Target::tell_the_set_aside() noexcept {
    const std::uint32_t ids = untold_.exchange(0, std::memory_order_acq_rel);
    if (ids == 0) return;
    choose_chore_time();
    const MutexLock lock(mutex_);
    for (std::uint32_t id = 0; id < most_sources; ++id) {
        Source& source = sources_[id];
        if ((ids >> id & 1) == 0 || source.heard_at == 0) continue;
        source.heard_at = now_ns();
        source.grains = board_.counters(id).grains;
        tell(source);
    }
}

/// It has been forgotten, so that nothing is tried again. If it is not told now, its next grain has it told.
void Target::tell(const Source& source) noexcept {
    try {
        side_.engine().load_connection_info(source.name, source.connection);
    } catch (const std::exception& error) {
        RAILYARD_LOG(debug, side_.name().c_str(), "%s is not told: %s", source.name.c_str(), error.what());
        return;
    }
    take_leave_of(source);
    forget(source.name);
}

void Target::handle(const std::string& sender, const FlowLetter& letter) {
    if (letter.kind == LetterKind::open) return on_open(sender, letter);
    const MutexLock lock(mutex_);
    const auto is_it = [&](const Source& source) {
        return source.name == sender && source.opening == letter.opening;
    };
    const auto found = std::find_if(sources_.begin(), sources_.end(), [&](const Source& source) {
        return (source.connected || source.heard_at != 0) && is_it(source);
    });
    if (found == sources_.end()) {  // of an opening that is over
        const auto former = std::find_if(former_.begin(), former_.end(), is_it);
        if (former != former_.end() && letter.kind == LetterKind::grain) tell(*former);
        return;
    }
    const auto id = static_cast<std::uint32_t>(found - sources_.begin());
    if (letter.kind == LetterKind::grain) {
        board_.take(id, {id, letter.round, letter.index, letter.first}, letter.count);
        if (!found->connected) tell_later(id);
    } else if (letter.kind == LetterKind::close) {
        leave(*found);
        RAILYARD_LOG(info, side_.name().c_str(), "source %u, %s, has taken its leave", id, sender.c_str());
    }
}

void Target::on_open(const std::string& sender, const FlowLetter& letter) {
    const MutexLock lock(mutex_);
    note_the_gone();  // before it is met anew: it may be one of them, and those are forgotten
    side_.engine().load_connection_info(sender, letter.connection);
    FlowLetter reply{.kind = LetterKind::refused, .opening = letter.opening};
    const auto id = source_for(sender);
    if (!id) {
        reply.reason = why_none_is_free();
        answer(sender, std::move(reply));
        return forget(sender);
    }
    Source& source = sources_[*id];
    if (source.connected && source.opening > letter.opening) return;  // late
    if (!source.name.empty()) side_.engine().catch_up(catch_up_limit_ns);
    const auto release = [this](Transfer* transfer) { side_.engine().release(transfer); };
    std::unique_ptr<Transfer, decltype(release)> watch(nullptr, release);
    try {
        // First: a source that cannot be watched would keep its number for ever.
        watch.reset(side_.engine().prepare(Operation::write, {}, {}, sender, std::nullopt));
        const bool known = source.name == sender;
        board_.open(*id, GrainGeometry(side_.grains(), side_.grain_length(), info_.slices, letter.unit),
                    known ? GrainBoard::Counting::goes_on : GrainBoard::Counting::anew);
    } catch (const Error& error) {
        reply.reason = error.what();
        answer(sender, std::move(reply));
        return forget(sender);
    }
    std::erase_if(former_, [&](const Source& former) { return former.name == sender; });
    if (source.heard_at != 0 && source.name != sender) {
        former_.push_back(source);
        if (former_.size() > most_sources) former_.erase(former_.begin());
    }
    side_.engine().release(source.watch);
    source = {sender, letter.opening, true, 0, nullptr, letter.connection};
    set_aside_.fetch_and(~(1u << *id), std::memory_order_relaxed);
    source.watch = watch.release();
    reply.kind = LetterKind::taken;
    reply.source = *id;
    RAILYARD_LOG(info, side_.name().c_str(), "source %u is %s", *id, sender.c_str());
    answer(sender, std::move(reply));
}

/// Its own, else one that nobody ever had, else that of whoever left first. Those that were set aside come
/// last: they may be back.
std::optional<std::uint32_t> Target::source_for(const std::string& sender) {
    std::optional<std::uint32_t> best;
    for (std::uint32_t id = 0; id < most_sources; ++id) {
        const Source& source = sources_[id];
        if (source.name == sender) return id;
        if (source.connected || kept_for(id) != 0) continue;
        const auto turn = [&](const Source& of) { return std::pair(of.heard_at != 0, of.left); };
        if (!best || turn(source) < turn(sources_[*best])) best = id;
    }
    return best;
}

/// Immediate data says nothing but the number. Past peer_timeout_ms its sender has given up what it had under
/// way, or has read what it was told.
std::uint64_t Target::kept_for(std::uint32_t id) {
    Source& source = sources_[id];
    if (source.heard_at == 0) return 0;
    const std::uint64_t now = now_ns();
    if (source.grains != board_.counters(id).grains) {  // that nobody has taken
        source.heard_at = now;
        tell_later(id);
    }
    const std::uint64_t end = source.heard_at + side_.engine().params().peer_timeout_ms * 1'000'000;
    return end > now ? end - now : 0;
}

std::string Target::why_none_is_free() {
    std::string why = "it has " + std::to_string(most_sources) + " sources already";
    std::uint64_t first = UINT64_MAX;
    for (std::uint32_t id = 0; id < most_sources; ++id) {
        if (!sources_[id].connected) first = std::min(first, kept_for(id));
    }
    if (first == UINT64_MAX) return why;
    return why + ", of which one is gone: its number becomes free in " +
           std::to_string(first / 1'000'000 + 1) + " ms, unless something comes of it";
}

void Target::note_the_gone(std::vector<Transfer*>* unwatched) {
    for (Source& source : sources_) {
        if (source.connected && source.watch && side_.engine().peer_is_gone(*source.watch))
            set_aside(source, unwatched);
    }
}

/// It may have noticed nothing, where only the way between us failed.
void Target::set_aside(Source& source, std::vector<Transfer*>* unwatched) {
    const auto id = static_cast<std::uint32_t>(&source - sources_.data());
    leave(source, unwatched);
    source.heard_at = now_ns();
    source.grains = board_.counters(id).grains;
    set_aside_.fetch_or(1u << id, std::memory_order_relaxed);
    tell_later(id);
    RAILYARD_LOG(info, side_.name().c_str(), "source %u, %s, is gone", id, source.name.c_str());
}

void Target::leave(Source& source, std::vector<Transfer*>* unwatched) {
    source.connected = false;
    source.left = ++leaves_;
    source.heard_at = 0;
    set_aside_.fetch_and(~(1u << (&source - sources_.data())), std::memory_order_relaxed);
    Transfer* const watch = std::exchange(source.watch, nullptr);
    if (unwatched) {
        unwatched->push_back(watch);
    } else {
        side_.engine().release(watch);
    }
    forget(source.name);
}

/// It finds out by itself, if there is no memory to tell it.
void Target::take_leave_of(const Source& source) noexcept {
    try {
        answer(source.name, {.kind = LetterKind::close, .opening = source.opening});
    } catch (const std::exception& error) {
        RAILYARD_LOG(debug, side_.name().c_str(), "no leave of %s: %s", source.name.c_str(), error.what());
    }
}

/// Else every initiator that ever came would be kept.
void Target::forget(const std::string& initiator) noexcept {
    try {
        side_.engine().disconnect(initiator);
    } catch (const std::exception& error) {
        RAILYARD_LOG(debug, side_.name().c_str(), "%s is not forgotten: %s", initiator.c_str(), error.what());
    }
}

void Target::answer(const std::string& to, FlowLetter letter) {
    try {
        side_.engine().send_notification(to, encode(letter));
    } catch (const Error& error) {
        RAILYARD_LOG(warn, side_.name().c_str(), "%s cannot be answered: %s", to.c_str(), error.what());
    }
}

}  // namespace railyard::flow
