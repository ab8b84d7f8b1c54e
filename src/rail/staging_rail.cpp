#include "rail/staging_rail.h"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/log.h"

namespace railyard {
namespace {

/// Pieces of a slot start on cache lines, so that a NIC and a GPU do not share one.
constexpr std::uint64_t piece_alignment = 64;
/// A submission may have so many slots for each that is free: of many, an eighth is left to others, and one
/// whose peer takes nothing does not stop them all.
constexpr std::uint32_t slots_per_free_slot = 7;
/// Copy engines pause 2 to 3 us between copies, a fifth of the time that 512 KiB take, so long transfers fill
/// long slots: with what leaves enough for so many, so that copies and carriers overlap to the end.
constexpr std::uint64_t slots_left = 4;
/// What a slot takes however little is left. No chunk is longer, so that long slots fill up.
constexpr std::uint64_t chunk_bytes = std::uint64_t{512} << 10;
/// What a carrier takes of a slot in one go, as elsewhere: a doorbell's worth of small chunks.
constexpr std::uint64_t bytes_per_run = std::uint64_t{256} << 10;
constexpr std::uint64_t longest_run = 32;

bool may_post(const Route& route) noexcept {
    return !route.gated || route.path->admits(route.rail->sender_generation());
}

/// What each of the carriers takes as one.
std::uint64_t longest_operation(const Route& staged) noexcept {
    std::uint64_t longest = UINT32_MAX;
    for (const Route& carrier : staged.carriers)
        longest = std::min(longest, carrier.rail->max_chunk());
    return longest;
}

}  // namespace

/// One slot's way: its chunks as the carriers see them, and the pieces of GPU memory that they stand for.
struct StagingRail::Slot {
    Slot() {
        work.chunks.reserve(pieces_per_slot);
        work.lanes.reserve(1);
        pieces.reserve(pieces_per_slot);
        inner.late = &late;
    }
    Slot* next = nullptr;
    unsigned index = 0;
    Submission* outer = nullptr;
    Submission inner;
    Work work;
    std::vector<cuda::StagedPiece> pieces;
    std::uint64_t used = 0;     ///< bytes
    std::uint32_t covered = 0;  ///< chunks of the outer work
    std::atomic<std::uint32_t> late{0};
    std::atomic<std::uint32_t>* outer_late = nullptr;  ///< the outer submission's, where that counts this one
};

struct StagingRail::Opened {
    Opened(cuda::ContextPtr context, unsigned count, std::size_t slot_bytes,
           std::shared_ptr<const cuda::CopyKernel> kernel)
        : ring(std::move(context), count, slot_bytes, std::move(kernel)), slots(count) {
        for (unsigned i = 0; i < count; ++i)
            slots[i].index = i;
    }
    cuda::StagingRing ring;
    std::vector<Slot> slots;
    // In the order in which the copies were started, which is the order in which they end.
    PendingList<Slot> copying_out, copying_in;
    PendingList<Slot> with_carriers;
    PendingList<Slot> lost;
    std::size_t next_carrier = 0;
};

StagingRail::StagingRail(std::string name) : Rail(std::move(name)) {}

StagingRail::~StagingRail() {
    RoleGuard guard(role_);
    const MutexLock lock(open_mutex_);
    if (!owner_) return;
    const std::uint64_t limit = now_ns() + teardown_limit_ns;
    bool left = false;
    for (PendingList<Slot>* copying : {&owner_->copying_out, &owner_->copying_in}) {
        while (!copying->empty()) {
            const unsigned slot = copying->pop_front()->index;
            while (owner_->ring.poll(slot) == Status::in_progress) {
                if (now_ns() > limit) {
                    RAILYARD_LOG(error, name().c_str(),
                                 "copies have not ended within 2 s: the GPU hangs, its staging memory stays");
                    static_cast<void>(owner_.release());
                    return;
                }
                sched_yield();
            }
            left = left || owner_->ring.has_left(slot);
        }
    }
    while (!owner_->lost.empty())
        left = owner_->ring.has_left(owner_->lost.pop_front()->index) || left;
    if (!left) return;
    RAILYARD_LOG(error, name().c_str(),
                 "copies may still be under way: the driver does not say, and their staging memory stays");
    static_cast<void>(owner_.release());
}

void StagingRail::open(cuda::ContextPtr context, unsigned slots, std::size_t slot_bytes,
                       std::shared_ptr<const cuda::CopyKernel> kernel) {
    const MutexLock lock(open_mutex_);
    if (owner_) return;
    const int gpu = context->ordinal();
    owner_ = std::make_unique<Opened>(std::move(context), slots, slot_bytes, std::move(kernel));
    opened_.store(owner_.get(), std::memory_order_release);
    RAILYARD_LOG(info, name().c_str(), "staging of GPU %d through %u slots of %zu bytes", gpu, slots,
                 slot_bytes);
}

const cuda::StagingRing& StagingRail::ring() const noexcept {
    return opened_.load(std::memory_order_acquire)->ring;
}

std::uint64_t StagingRail::max_chunk() const noexcept {
    const Opened* opened = opened_.load(std::memory_order_acquire);
    return opened ? std::min<std::uint64_t>(opened->ring.slot_bytes(), chunk_bytes) : 0;
}

bool StagingRail::serve(bool drain_first) noexcept {
    waiting_ += take_submissions(pending_);
    if (waiting_ + busy_ == 0) return false;
    Opened* opened = opened_.load(std::memory_order_acquire);
    assert(opened && "submitted before open()");
    if (lost_ > 0) take_back(*opened);
    bool worked = drain_first && advance(*opened);
    worked = start_slots(*opened) || worked;
    if (!drain_first && waiting_ > 0 && advance(*opened)) {
        start_slots(*opened);
        worked = true;
    }
    load_.store(waiting_ + busy_ - lost_, std::memory_order_relaxed);
    return worked;
}

bool StagingRail::advance(Opened& opened) noexcept {
    bool worked = advance_copies(opened, opened.copying_out);
    worked = advance_carried(opened) || worked;
    return advance_copies(opened, opened.copying_in) || worked;
}

bool StagingRail::advance_copies(Opened& opened, PendingList<Slot>& copying) noexcept {
    bool worked = false;
    while (!copying.empty()) {
        Slot& slot = *copying.pop_front();
        const Status status = opened.ring.poll(slot.index);
        if (status == Status::in_progress) {
            PendingList<Slot> head;
            head.push_back(slot);
            copying.prepend(head);
            break;  // what comes behind it has not ended either
        }
        worked = true;
        const Work& outer = *slot.outer->lane->work;
        if (status != Status::ok || outer.kind == Work::Kind::read) {
            finish(opened, slot, status);
        } else if (outer.status() != Status::ok) {
            finish(opened, slot, outer.status());
        } else {
            carry(opened, slot);
        }
    }
    return worked;
}

bool StagingRail::advance_carried(Opened& opened) noexcept {
    bool worked = false;
    PendingList<Slot> kept;
    while (!opened.with_carriers.empty()) {
        Slot& slot = *opened.with_carriers.pop_front();
        const Work& outer = *slot.outer->lane->work;
        if (!slot.work.done()) {
            if (outer.status() != Status::ok) slot.work.stop(outer.status());
            kept.push_back(slot);
            continue;
        }
        worked = true;
        if (slot.work.status() != Status::ok || outer.kind == Work::Kind::write) {
            finish(opened, slot, slot.work.status());
        } else if (outer.status() != Status::ok) {
            finish(opened, slot, outer.status());
        } else {
            copy(opened, slot);
        }
    }
    opened.with_carriers.prepend(kept);
    return worked;
}

/// Round robin by slot. Who may not have one now keeps its place.
bool StagingRail::start_slots(Opened& opened) noexcept {
    bool worked = false;
    PendingList<Submission> kept;
    while (!pending_.empty()) {
        Submission& submission = *pending_.pop_front();
        Work& work = *submission.lane->work;
        if (lost_ == opened.ring.slots() && submission.stalled.refusal(lost_limit_ns)) {
            RAILYARD_LOG(error, name().c_str(),
                         "no staging memory is left: peers that were given up may still use all of it; it "
                         "comes back as they answer, or as they are kept from it, which takes some seconds; "
                         "over shm and fabric efa, else make a new engine");
            work.stop(Status::backend);
        }
        if (work.status() == Status::ok) {
            if (!may_take_slot(opened, submission)) {
                kept.push_back(submission);
                continue;
            }
            submission.stalled.reset();
            Slot& slot = opened.slots[opened.ring.take()];
            if (fill(opened, slot, submission)) {
                ++busy_;
                ++submission.outstanding;
                pending_.push_back(submission);
                work.kind == Work::Kind::write ? copy(opened, slot) : carry(opened, slot);
                worked = true;
                continue;
            }
            opened.ring.give_back(slot.index);
        } else {
            fail_rest(submission, work.status());
        }
        --waiting_;
        worked = true;
        work.part_done(Status::ok);
    }
    pending_.prepend(kept);
    return worked;
}

bool StagingRail::may_take_slot(const Opened& opened, const Submission& submission) const noexcept {
    const std::uint32_t free = opened.ring.slots() - busy_;
    if (submission.outstanding == 0) return free > 0;
    if (submission.outstanding >= slots_per_free_slot * free) return false;
    const std::vector<Route>& carriers = submission.route->carriers;
    return std::any_of(carriers.begin(), carriers.end(), may_post);
}

/// Takes as many of the chunks as fit, and of a long transfer's no more than leaves others to be under way;
/// false when none are left. What adjoins in one registration's GPU memory is one piece (allocations of the
/// driver may adjoin, and it refuses copies that leave one), what adjoins in the slot and at the peer one
/// operation.
bool StagingRail::fill(Opened& opened, Slot& slot, Submission& submission) noexcept {
    const std::uint64_t room = opened.ring.slot_bytes(), longest = longest_operation(*submission.route);
    std::uint64_t enough = 0;
    const auto base = reinterpret_cast<std::uint64_t>(opened.ring.data(slot.index));
    Lane& lane = *submission.lane;
    Work& outer = *lane.work;
    std::vector<Chunk>& chunks = slot.work.chunks;
    slot.outer = &submission;
    slot.used = 0;
    slot.covered = 0;
    slot.pieces.clear();
    chunks.clear();
    std::uint32_t region = 0;  // of the last piece
    while (std::max(chunks.size(), slot.pieces.size()) < pieces_per_slot) {
        if (submission.run.empty()) submission.run = lane.take_run(lane.run_length);
        if (submission.run.empty()) break;
        const Chunk& chunk = outer.chunks[submission.run.begin];
        if (chunk.length > room) {
            ++submission.run.begin;
            outer.part_done(Status::invalid_param);
            continue;
        }
        const cuda::StagedPiece* last = slot.pieces.empty() ? nullptr : &slot.pieces.back();
        const bool adjoins =
            last && region == chunk.local_region && last->device_address + last->length == chunk.local;
        region = chunk.local_region;
        const std::uint64_t offset =
            adjoins ? slot.used : (slot.used + piece_alignment - 1) / piece_alignment * piece_alignment;
        if (offset + chunk.length > room || (enough != 0 && offset + chunk.length > enough)) break;
        if (enough == 0) {
            const std::uint64_t left = submission.run.size() + lane.left();
            enough = std::max(chunk_bytes, left * chunk.length / slots_left);
        }
        if (adjoins) {
            slot.pieces.back().length += chunk.length;
        } else {
            slot.pieces.push_back({chunk.local, offset, chunk.length});
        }
        Chunk* const before = chunks.empty() ? nullptr : &chunks.back();
        if (before && before->remote_region == chunk.remote_region &&
            before->local + before->length == base + offset &&
            before->remote + before->length == chunk.remote &&
            before->length + std::uint64_t{chunk.length} <= longest) {
            before->length += chunk.length;
        } else {
            chunks.push_back({base + offset, chunk.remote, chunk.length, 0, chunk.remote_region});
        }
        ++slot.covered;
        slot.used = offset + chunk.length;
        ++submission.run.begin;
    }
    return !chunks.empty();
}

void StagingRail::copy(Opened& opened, Slot& slot) noexcept {
    const bool out = slot.outer->lane->work->kind == Work::Kind::write;
    const auto reach = slot.outer->route->threads_reach ? cuda::Reach::pinned : cuda::Reach::unknown;
    const Status status =
        out ? opened.ring.copy_from_device(slot.index, slot.pieces.data(), slot.pieces.size(), reach)
            : opened.ring.copy_to_device(slot.index, slot.pieces.data(), slot.pieces.size(), reach);
    if (status != Status::in_progress) {
        finish(opened, slot, status);
    } else {
        (out ? opened.copying_out : opened.copying_in).push_back(slot);
    }
}

/// Hands the slot to the least loaded carrier that may post.
void StagingRail::carry(Opened& opened, Slot& slot) noexcept {
    const std::vector<Route>& carriers = slot.outer->route->carriers;
    const std::size_t first = opened.next_carrier++;
    const Route* best = nullptr;
    for (std::size_t i = 0; i < carriers.size(); ++i) {
        const Route& route = carriers[(first + i) % carriers.size()];
        if (!best || (may_post(route) && (!may_post(*best) || route.rail->ends_before(*best->rail, 1))))
            best = &route;
    }
    assert(best && "a staged route has carriers");
    Work& work = slot.work;
    const Work& outer = *slot.outer->lane->work;
    work.kind = outer.kind;
    work.renews = outer.renews;
    work.whole = outer.whole;
    work.lanes.clear();
    Lane& lane = work.lanes.emplace_back(work, 0, static_cast<std::uint32_t>(work.chunks.size()));
    const std::uint64_t average = slot.used / work.chunks.size() + 1;
    lane.run_length =
        static_cast<std::uint32_t>(std::clamp<std::uint64_t>(bytes_per_run / average, 1, longest_run));
    slot.inner.lane = &lane;
    slot.inner.route = best;
    slot.inner.alternatives = carriers;
    slot.inner.run = {};
    slot.inner.rearm();
    work.arm(1, nullptr);
    opened.with_carriers.push_back(slot);
    best->rail->submit(slot.inner);
}

/// By an operation, or a copy, that was given up.
bool StagingRail::may_still_be_touched(Opened& opened, Slot& slot) noexcept {
    return slot.late.load(std::memory_order_acquire) != 0 || opened.ring.has_left(slot.index);
}

void StagingRail::finish(Opened& opened, Slot& slot, Status status) noexcept {
    Submission& submission = *slot.outer;
    Work& outer = *submission.lane->work;
    --submission.outstanding;
    if (may_still_be_touched(opened, slot)) {
        slot.outer_late = slot.late.load(std::memory_order_relaxed) != 0 ? submission.late : nullptr;
        if (slot.outer_late) slot.outer_late->fetch_add(1, std::memory_order_relaxed);
        ++lost_;
        opened.lost.push_back(slot);
    } else {
        --busy_;
        opened.ring.give_back(slot.index);
    }
    outer.part_done(status, slot.covered);  // the last touch of the outer work
}

void StagingRail::take_back(Opened& opened) noexcept {
    PendingList<Slot> kept;
    while (!opened.lost.empty()) {
        Slot& slot = *opened.lost.pop_front();
        if (may_still_be_touched(opened, slot)) {
            kept.push_back(slot);
            continue;
        }
        --lost_;
        --busy_;
        if (auto* const late = std::exchange(slot.outer_late, nullptr))
            late->fetch_sub(1, std::memory_order_release);
        opened.ring.give_back(slot.index);
    }
    opened.lost.prepend(kept);
}

}  // namespace railyard
