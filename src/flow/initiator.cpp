#include "flow/initiator.h"

#include <algorithm>
#include <utility>

#include "common/clock.h"
#include "common/log.h"

namespace railyard::flow {
namespace {

/// The end of a transfer rings no bell: somebody who sleeps looks so often.
constexpr std::uint32_t nap_ms = 1;
/// What a target is granted to answer, when it is removed before it has.
constexpr std::uint64_t answer_patience_ns = 220'000'000;
constexpr std::uint64_t answer_look_ns = 1'000'000;
/// Targets that are remembered when they have gone.
constexpr std::size_t most_gone = 64;

}  // namespace

Initiator::Initiator(const SideConfig& config)
    : side_("initiator", config), former_(side_.engine()), sent_(side_.grains()) {
    side_.engine().set_chore(this, Engine::ChoreTime::notifications);
}

Initiator::~Initiator() {
    side_.engine().set_chore(nullptr);
    Departures gone(*this);
    const LeaseGuard turn(turn_);
    side_.engine().progress();
    try {
        read_letters();  // nobody takes leave of who has done so
    } catch (const std::exception& error) {
        RAILYARD_LOG(debug, side_.name().c_str(), "letters were left: %s", error.what());
    }
    try {
        take_out([](const TargetLink&) { return true; }, gone);
    } catch (const std::exception& error) {
        RAILYARD_LOG(warn, side_.name().c_str(), "no leave of the targets: %s", error.what());
    }
}

/// Whether or not the program calls: it may have no target left.
bool Initiator::run() noexcept {
    former_.look();
    return false;
}

/// Waits for whatever is under way to them together, and not for one after the other.
Initiator::Departures::~Departures() {
    if (links_.empty()) return;
    initiator_.side_.engine().release(handles_);
    const LeaseGuard turn(initiator_.turn_);
    initiator_.former_.add(std::move(missed_));  // first: whoever adds one again waits for what leaves
    std::erase_if(initiator_.leaving_, [&](const auto& link) {
        return std::find(links_.begin(), links_.end(), link.get()) != links_.end();
    });
}

template <class Which>
bool Initiator::take_out(Which which, Departures& gone) {
    if (std::none_of(links_.begin(), links_.end(), [&](const auto& link) { return which(*link); }))
        return false;
    const auto first =
        std::stable_partition(links_.begin(), links_.end(), [&](const auto& link) { return !which(*link); });
    const auto count = static_cast<std::size_t>(links_.end() - first);
    std::vector<Transfer*> handles = gone.handles_;
    std::list<FormerTarget> missed;
    for (auto link = first; link != links_.end(); ++link) {
        (*link)->add_handles(handles);
        if ((*link)->is_missed()) missed.push_back((*link)->as_former());
    }
    gone.links_.reserve(gone.links_.size() + count);
    leaving_.reserve(leaving_.size() + count);
    gone.handles_ = std::move(handles);
    gone.missed_.splice(gone.missed_.end(), missed);
    for (auto link = first; link != links_.end(); ++link) {
        if (!(*link)->is_missed()) (*link)->leave();
        gone.links_.push_back(link->get());
        leaving_.push_back(std::move(*link));
    }
    links_.erase(first, links_.end());
    return true;
}

TargetLink* Initiator::find(const std::string& id) const {
    const auto found =
        std::find_if(links_.begin(), links_.end(), [&](const auto& link) { return link->id() == id; });
    return found == links_.end() ? nullptr : found->get();
}

void Initiator::add_target(const TargetInfo& info) {
    for (int attempt = 0; !add_unless_leaving(info); ++attempt)
        wait_a_moment(attempt);
}

/// What is late of the opening before must not meet the next one.
bool Initiator::add_unless_leaving(const TargetInfo& info) {
    const LeaseGuard turn(turn_);
    if (find(info.id()))
        throw Error(Status::repost_active, "target " + info.id() + " has been added already");
    if (std::any_of(leaving_.begin(), leaving_.end(),
                    [&](const auto& link) { return link->id() == info.id(); }))
        return false;
    links_.reserve(links_.size() + 1);  // a link that nobody keeps would not take its leave
    former_.forget(info.id());
    links_.push_back(std::make_unique<TargetLink>(side_, info, ++openings_));
    for (std::uint32_t index = 0; index < sent_.size(); ++index) {
        if (sent_[index].unfinished()) links_.back()->skip_round(index);
    }
    gone_.remove_if([&](const TargetReport& gone) { return gone.id == info.id(); });
    return true;
}

bool Initiator::remove_target(const TargetInfo& info) {
    const auto opening = await_answer(info.id());
    if (!opening) return false;
    Departures gone(*this);
    const LeaseGuard turn(turn_);
    return take_out([&](const TargetLink& link) { return link.opening() == *opening; }, gone);
}

/// Of one that is to be removed. Until then our leave might overtake what introduces us, or not get there at
/// all, and a source would be left behind at the target.
std::optional<std::uint32_t> Initiator::await_answer(const std::string& id) {
    Engine& engine = side_.engine();
    const std::uint64_t end = now_ns() + answer_patience_ns;
    std::optional<std::uint32_t> opening;
    for (;;) {
        const std::uint64_t now = now_ns();
        {
            const LeaseGuard turn(turn_);
            read_letters();
            TargetLink* const link = find(id);
            if (!link || (opening && link->opening() != *opening)) return std::nullopt;
            opening = link->opening();
            if (link->answered() || !link->lost().empty() || now >= end) return opening;
            link->leave_out();
        }
        // Another thread may take in the answer.
        const std::uint64_t next_look = std::min(end, now + answer_look_ns);
        do {
            engine.progress();
        } while (!engine.has_notifications() && now_ns() < next_look);
    }
}

void Initiator::require_grain(std::uint32_t index) const {
    if (index < side_.grains()) return;
    throw Error(Status::invalid_param, "grain " + std::to_string(index) + ": there are " +
                                           std::to_string(side_.grains()) + ", from 0 on");
}

bool Initiator::is_busy(std::uint32_t index, Slices slices) const {
    if (std::any_of(leaving_.begin(), leaving_.end(), [&](const auto& link) { return link->carries(index); }))
        return true;
    const bool begins_round = sent_[index].begins_round(slices);
    return std::any_of(links_.begin(), links_.end(), [&](const auto& link) {
        return link->busy(index, link->resolve(slices), begins_round);
    });
}

Outcome Initiator::grain_ready(std::uint32_t index) {
    require_grain(index);
    Departures gone(*this);
    const LeaseGuard turn(turn_);
    drive(gone);
    return is_busy(index, whole_grain) ? Outcome::not_ready : Outcome::ok;
}

void Initiator::require_targets() const {
    if (links_.empty()) throw Error(Status::not_found, "there is no target: add one");
}

Outcome Initiator::transfer(std::uint32_t index, Slices slices) {
    require_grain(index);
    Departures gone(*this);
    const LeaseGuard turn(turn_);
    require_targets();
    if (is_busy(index, slices)) {
        drive(gone);  // a program may do nothing but call again
        require_targets();
        if (is_busy(index, slices)) return Outcome::not_ready;
    }
    const bool begins_round = sent_[index].add(slices, links_.front()->slices());
    for (const auto& link : links_)
        link->transfer(index, link->resolve(slices), begins_round);
    return Outcome::ok;
}

void Initiator::read_letters() {
    if (!side_.engine().has_notifications() && letters_.empty()) return;
    side_.read_letters(letters_, [&](const std::string& sender,
                                     const FlowLetter& letter) ABSL_NO_THREAD_SAFETY_ANALYSIS {
        TargetLink* const link = find(sender);  // under the lock of this function, which clang does not see
        if (link) return link->on_letter(letter);
        former_.on_letter(sender, letter);
    });
}

void Initiator::remove_the_lost(Departures& gone) {
    const auto is_lost = [](const TargetLink& link) { return !link.lost().empty(); };
    std::list<std::string> lost;
    std::list<TargetReport> reports;
    for (const auto& link : links_) {
        if (!is_lost(*link)) continue;
        lost.push_back(link->lost());
        reports.push_back(link->report());
    }
    if (!take_out(is_lost, gone)) return;
    lost_.splice(lost_.end(), lost);
    gone_.splice(gone_.end(), reports);
    while (gone_.size() > most_gone)
        gone_.pop_front();
}

std::vector<TargetReport> Initiator::targets() {
    std::vector<TargetReport> reports;
    const LeaseGuard turn(turn_);
    for (const auto& link : links_)
        reports.push_back(link->report());
    reports.insert(reports.end(), gone_.begin(), gone_.end());
    return reports;
}

void Initiator::expect_answers() {
    const bool some = std::any_of(links_.begin(), links_.end(),
                                  [](const auto& link) { return link->answered() && link->lost().empty(); });
    if (some != (answered_since_ns_ != 0)) answered_since_ns_ = some ? now_ns() : 0;
    for (const auto& link : links_)
        link->expect_answer(answered_since_ns_);
}

bool Initiator::drive(Departures& gone) {
    side_.engine().progress();
    // First, so that what had arrived when a target took its leave has ended well.
    for (const auto& link : links_)
        link->progress();
    read_letters();
    expect_answers();
    const bool left =
        std::any_of(links_.begin(), links_.end(), [](const auto& link) { return link->has_left(); }) ||
        std::any_of(leaving_.begin(), leaving_.end(), [](const auto& link) { return link->carries(); });
    remove_the_lost(gone);
    return left;
}

Outcome Initiator::step(std::string& what, Departures& gone) {
    const bool left = drive(gone);
    if (!lost_.empty()) {
        what = std::move(lost_.front());
        lost_.pop_front();
        return Outcome::disconnected;
    }
    for (const auto& link : links_) {
        if (auto failure = link->take_failure()) {
            what = std::move(*failure);
            return Outcome::failed;
        }
    }
    return left ? Outcome::not_ready : Outcome::ok;
}

Outcome Initiator::make_progress(std::string& what) {
    Departures gone(*this);
    const LeaseGuard turn(turn_);
    return step(what, gone);
}

Outcome Initiator::make_progress(std::uint32_t timeout_ms, std::string& what) {
    Outcome last = Outcome::not_ready;
    const auto over = [&] {
        last = make_progress(what);
        return last != Outcome::not_ready;
    };
    const Outcome waited = side_.wait(over, timeout_ms, nap_ms);
    return waited == Outcome::ok ? last : waited;
}

}  // namespace railyard::flow
