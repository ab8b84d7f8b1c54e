#include "flow/target_link.h"

#include <algorithm>
#include <cstdio>
#include <new>
#include <utility>

#include "common/log.h"
#include "manager/registration.h"

namespace railyard::flow {
namespace {

/// Over several rails, so that each gets its share and none cuts further; over one, what it carries well at
/// once.
constexpr std::uint64_t striped_unit = std::uint64_t{256} << 10;
constexpr std::uint64_t single_unit = std::uint64_t{16} << 20;
/// Prepared transfers a grain that are kept for ranges of slices.
constexpr std::size_t most_handles = 64;
/// Of connect_timeout_ms, for which grains wait for one target while others have answered.
constexpr std::uint64_t patience_share = 10;
/// The same message says either.
constexpr const char* closed_words =
    "it was destroyed, or could not reach this initiator for a while: where it is there, add it again";

GrainGeometry geometry_for(Side& side, const TargetInfo& info) {
    const std::uint64_t length = info.regions.front().length;
    if (info.regions.size() != side.grains() || length != side.grain_length()) {
        throw Error(Status::invalid_param,
                    "target " + info.id() + " has " + std::to_string(info.regions.size()) + " regions of " +
                        std::to_string(length) + " bytes, the initiator " + std::to_string(side.grains()) +
                        " of " + std::to_string(side.grain_length()) + ": both need the same");
    }
    const bool striped = side.engine().rail_count() > 1 || info.connection.rails.size() > 1;
    return GrainGeometry::choose(side.grains(), length, info.slices, striped ? striped_unit : single_unit);
}

bool overlap(Slices a, Slices b) noexcept {
    return a.first <= b.last && b.first <= a.last;
}

}  // namespace

TargetLink::TargetLink(Side& side, const TargetInfo& info, std::uint32_t opening)
    : side_(side),
      id_(info.id()),
      opening_(opening),
      geometry_(geometry_for(side, info)),
      connection_(encode(info.connection)),
      grains_(side.grains()) {
    Engine& engine = side_.engine();
    engine.load_connection_info(id_, connection_);
    try {
        for (const MemoryInfo& region : info.regions)
            remotes_.push_back(engine.load_remote_memory(id_, encode(region), region.address, region.length));
        engine.send_notification(id_, encode(FlowLetter{.kind = LetterKind::open,
                                                        .opening = opening_,
                                                        .unit = geometry_.unit_length(),
                                                        .connection = engine.connection_info()}));
        watch_ = engine.prepare(Operation::write, {}, {}, id_, std::nullopt);
    } catch (...) {
        engine.disconnect(id_);
        throw;
    }
    added_ns_ = now_ns();
}

void TargetLink::add_handles(std::vector<Transfer*>& all) const {
    if (!is_missed()) all.push_back(watch_);
    for (const Grain& grain : grains_) {
        for (const auto& handle : grain.handles)
            all.push_back(handle->transfer);
    }
}

void TargetLink::leave() noexcept {
    Engine& engine = side_.engine();
    try {
        if (lost_.empty())
            engine.send_notification(id_, encode(FlowLetter{.kind = LetterKind::close, .opening = opening_}));
        engine.disconnect(id_);
    } catch (const std::exception& error) {
        RAILYARD_LOG(debug, side_.name().c_str(), "no leave of %s: %s", id_.c_str(), error.what());
    }
}

void TargetLink::refuse(Slices slices) const {
    throw Error(Status::invalid_param, "slices " + std::to_string(slices.first) + " to " +
                                           std::to_string(slices.last) + ": grains of target " + id_ +
                                           " have " + std::to_string(geometry_.slices()));
}

bool TargetLink::busy(std::uint32_t index, Slices slices, bool begins_round) const noexcept {
    if (grains_[index].under_way == 0 && waiting_.empty()) return false;
    const auto under_way = [&](const Handle* other) {
        return other->index == index && (begins_round || overlap(other->slices, slices));
    };
    const auto waits = [&](const Waiting& other) {
        return other.index == index && (begins_round || overlap(other.slices, slices));
    };
    return std::any_of(under_way_.begin(), under_way_.end(), under_way) ||
           std::any_of(waiting_.begin(), waiting_.end(), waits);
}

void TargetLink::transfer(std::uint32_t index, Slices slices, bool begins_round) noexcept {
    if (!lost_.empty()) return;
    Grain& grain = grains_[index];
    grain.skipped = grain.skipped && !begins_round;
    if (grain.skipped) return;
    // What goes wrong here is this target's alone: the others have it, or will.
    try {
        if (source_) return begin(index, slices, begins_round);
        if (!left_out_) {
            waiting_.push_back({index, slices, begins_round});
            return;
        }
        rounds_left_out_ += begins_round ? 1 : 0;
    } catch (const Error& error) {
        if (error.status() == Status::remote_disconnect) return lose(error.what());
        fail(index, error.what());
    } catch (const std::exception&) {
        fail(index, "out of memory");
    }
    grain.skipped = true;
}

void TargetLink::begin(std::uint32_t index, Slices slices, bool begins_round) {
    Grain& grain = grains_[index];
    if (begins_round) {
        ++grain.round;
        grain.arrived = 0;
    }
    Handle& handle = handle_for(grain, index, slices);
    under_way_.reserve(under_way_.size() + 1);
    const Status status = post(handle, grain.round);
    if (status != Status::in_progress) return ended(handle, status);
    handle.under_way = true;
    ++grain.under_way;
    under_way_.push_back(&handle);
}

TargetLink::Handle& TargetLink::handle_for(Grain& grain, std::uint32_t index, Slices slices) {
    for (const auto& known : grain.handles) {
        if (known->slices == slices && !known->under_way) return *known;
    }
    if (grain.handles.size() >= most_handles) {
        const auto idle = std::find_if(grain.handles.begin(), grain.handles.end(),
                                       [](const auto& known) { return !known->under_way; });
        if (idle != grain.handles.end()) {
            side_.engine().release((*idle)->transfer);
            grain.handles.erase(idle);
        }
    }
    auto handle = std::make_unique<Handle>();
    handle->index = index;
    handle->slices = slices;
    handle->first = geometry_.first_unit(slices.first);
    handle->count = geometry_.end_unit(slices.last) - handle->first;
    const Span last = geometry_.slice_at(slices.last);
    handle->bytes = last.offset + last.length - geometry_.slice_at(slices.first).offset;
    grain.handles.push_back(std::move(handle));
    try {
        grain.handles.back()->transfer = prepare(*grain.handles.back());
    } catch (...) {
        grain.handles.pop_back();
        throw;
    }
    return *grain.handles.back();
}

Transfer* TargetLink::prepare(const Handle& handle) {
    const std::shared_ptr<Registration>& local = side_.regions()[handle.index];
    const std::shared_ptr<RemoteRegion>& remote = remotes_[handle.index];
    std::vector<LocalDescriptor> from;
    std::vector<RemoteDescriptor> to;
    for (std::uint32_t i = 0; i < handle.count; ++i) {
        const Span span = geometry_.unit_at(handle.first + i);
        from.push_back({local->address + span.offset, span.length, &local});
        to.push_back({remote->address + span.offset, span.length, &remote});
    }
    return side_.engine().prepare(Operation::write, from, to, id_, std::nullopt);
}

Status TargetLink::post(Handle& handle, std::uint32_t round) {
    Engine& engine = side_.engine();
    const UnitName name{*source_, round, handle.index, handle.first};
    if (engine.carry_immediates(*handle.transfer, handle.count, geometry_.bits().pack(name)))
        return engine.post(*handle.transfer);
    encode(FlowLetter{.kind = LetterKind::grain,
                      .opening = opening_,
                      .index = handle.index,
                      .round = round,
                      .first = handle.first,
                      .count = handle.count},
           letter_);
    return engine.post(*handle.transfer, &letter_);
}

void TargetLink::ended(const Handle& handle, Status status) noexcept {
    if (status == Status::ok) {
        Grain& grain = grains_[handle.index];
        grain.arrived += handle.count;
        whole_ += grain.arrived == geometry_.units() ? 1 : 0;
        bytes_ += handle.bytes;
        return;
    }
    if (status != Status::remote_disconnect) return fail(handle.index, to_string(status));
    char reason[64];
    std::snprintf(reason, sizeof(reason), "grain %u: %s", handle.index, to_string(status));
    lose(reason);
}

/// That it failed is told, whether or not there is memory for the reason.
void TargetLink::fail(std::uint32_t index, const char* reason) noexcept {
    Grain& grain = grains_[index];
    failed_ += grain.failed == 0 ? 1 : 0;
    grain.failed = ++failures_;
    last_failed_ = index;
    try {
        grain.why = reason;
    } catch (const std::bad_alloc&) {
        grain.why.clear();
    }
}

void TargetLink::lose(const char* reason) noexcept {
    waiting_.clear();
    if (!lost_.empty()) return;
    try {
        lost_ = "target " + id_ + " is gone (" + reason + ") and has been removed";
    } catch (const std::bad_alloc&) {
        lost_ = "target is gone";  // without an allocation
    }
}

void TargetLink::on_letter(const FlowLetter& letter) {
    if (letter.opening != opening_) return;
    closed_ = closed_ || letter.kind == LetterKind::refused || letter.kind == LetterKind::close;
    if (letter.kind == LetterKind::refused) return lose(("it refuses: " + letter.reason).c_str());
    if (letter.kind == LetterKind::close) return lose(closed_words);
    if (letter.kind != LetterKind::taken || source_) return;
    source_ = letter.source;
    left_out_ = false;
    std::vector<Waiting> waiting = std::move(waiting_);
    waiting_.clear();
    for (const Waiting& next : waiting)
        transfer(next.index, next.slices, next.begins_round);
}

void TargetLink::progress() noexcept {
    Engine& engine = side_.engine();
    for (std::size_t i = 0; i < under_way_.size();) {
        Handle& handle = *under_way_[i];
        const Status status = engine.look(*handle.transfer);
        if (status == Status::in_progress) {
            ++i;
            continue;
        }
        handle.under_way = false;
        --grains_[handle.index].under_way;
        under_way_[i] = under_way_.back();
        under_way_.pop_back();
        ended(handle, status);
    }
    if (under_way_.empty() && lost_.empty() && engine.peer_is_gone(*watch_))
        lose("it does not answer any more");
}

void TargetLink::expect_answer(std::uint64_t others_since_ns) {
    if (source_ || !lost_.empty()) return;
    const std::uint64_t now = now_ns(), limit_ms = side_.engine().params().connect_timeout_ms;
    if (now > added_ns_ + limit_ms * 1'000'000) {
        const std::string limit = std::to_string(limit_ms);
        return lose(("it has not answered within connect_timeout_ms, " + limit + " ms").c_str());
    }
    if (others_since_ns == 0) {  // nobody to go on with
        left_out_ = false;
    } else if (!waiting_.empty() &&
               now > std::max(added_ns_, others_since_ns) + limit_ms * 1'000'000 / patience_share) {
        leave_out();
        RAILYARD_LOG(info, side_.name().c_str(),
                     "target %s has not answered yet: the others are sent to without it", id_.c_str());
    }
}

void TargetLink::leave_out() noexcept {
    left_out_ = !source_;
    for (const Waiting& each : waiting_) {
        grains_[each.index].skipped = true;
        rounds_left_out_ += each.begins_round ? 1 : 0;
    }
    waiting_.clear();
}

std::optional<std::string> TargetLink::take_failure() {
    if (failed_ == 0) return std::nullopt;
    const auto waits_longer = [](const Grain& a, const Grain& b) {  // 0, which is none, comes last
        return a.failed - 1 < b.failed - 1;
    };
    const auto first = std::min_element(grains_.begin(), grains_.end(), waits_longer);
    std::string what = "target " + id_ + ", grain " + std::to_string(first - grains_.begin()) + ": " +
                       (first->why.empty() ? "out of memory for the reason" : first->why);
    first->failed = 0;
    --failed_;
    return what;
}

TargetReport TargetLink::report() const {
    TargetReport report;
    report.id = id_;
    report.under_way = static_cast<std::uint32_t>(under_way_.size());
    report.grains = whole_;
    report.bytes = bytes_;
    report.failed = failures_;
    report.left_out = rounds_left_out_;
    if (!lost_.empty()) {
        report.state = TargetState::gone;
        report.under_way = 0;
        report.error = lost_;
        return report;
    }
    if (source_) report.state = TargetState::connected;
    if (failures_ != 0) {
        const std::string& why = grains_[last_failed_].why;
        report.error = "grain " + std::to_string(last_failed_) + ": " +
                       (why.empty() ? "out of memory for the reason" : why);
    }
    return report;
}

}  // namespace railyard::flow
