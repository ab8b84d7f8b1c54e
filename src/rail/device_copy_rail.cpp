#include "rail/device_copy_rail.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/log.h"

namespace railyard {
namespace {

/// A group takes no further chunk beyond this, so that others get their turn.
constexpr std::uint64_t bytes_per_group = std::uint64_t{64} << 20;

}  // namespace

struct DeviceCopyRail::Group {
    Work* work = nullptr;
    const Route* route = nullptr;
    Run run;
    std::uint64_t bytes = 0;
};

struct DeviceCopyRail::Stream {
    Stream(const cuda::ContextPtr& context, const std::shared_ptr<const cuda::CopyKernel>& kernel)
        : copies(context, groups_per_stream, kernel) {}
    [[nodiscard]] bool full() const noexcept { return count == groups_per_stream; }

    cuda::CopyStream copies;
    std::array<Group, groups_per_stream> groups{};  ///< by ticket: a ring, as groups end in order
    unsigned first = 0, count = 0;
};

struct DeviceCopyRail::Opened {
    std::vector<std::unique_ptr<Stream>> streams;
    std::size_t next_stream = 0;
};

DeviceCopyRail::DeviceCopyRail(std::string name) : HostPeerRail(std::move(name)) {}

DeviceCopyRail::~DeviceCopyRail() {
    RoleGuard guard(role_);
    const MutexLock lock(open_mutex_);
    if (!owner_) return;
    const std::uint64_t limit = now_ns() + teardown_limit_ns;
    for (const std::unique_ptr<Stream>& stream : owner_->streams) {
        for (; stream->count > 0; --stream->count, stream->first = (stream->first + 1) % groups_per_stream) {
            while (stream->copies.poll(stream->first) == Status::in_progress) {
                if (now_ns() > limit) {
                    RAILYARD_LOG(error, name().c_str(),
                                 "copies have not ended within 2 s: the GPU hangs, their streams stay");
                    static_cast<void>(owner_.release());
                    return;
                }
                sched_yield();
            }
        }
    }
}

void DeviceCopyRail::open(const cuda::ContextPtr& context, unsigned streams,
                          const std::shared_ptr<const cuda::CopyKernel>& kernel) {
    const MutexLock lock(open_mutex_);
    if (owner_) return;
    auto opened = std::make_unique<Opened>();
    for (unsigned i = 0; i < streams; ++i)
        opened->streams.push_back(std::make_unique<Stream>(context, kernel));
    owner_ = std::move(opened);
    opened_.store(owner_.get(), std::memory_order_release);
    RAILYARD_LOG(info, name().c_str(), "copies of GPU %d on %u streams", context->ordinal(), streams);
}

bool DeviceCopyRail::may_copy_for_the_ended() noexcept {
    if (!role_.try_acquire()) return true;
    const bool found = copies_for_the_ended();
    role_.release();
    serve_pushed();
    return found;
}

bool DeviceCopyRail::copies_for_the_ended() noexcept {
    Opened* const opened = opened_.load(std::memory_order_acquire);
    if (!opened) return false;
    for (const std::unique_ptr<Stream>& stream : opened->streams) {
        for (unsigned i = 0; i < stream->count; ++i) {
            const Route& route = *stream->groups[(stream->first + i) % groups_per_stream].route;
            if (route.path && process_of(route).look() == ESRCH) return true;
        }
    }
    return false;
}

bool DeviceCopyRail::serve(bool drain_first) noexcept {
    waiting_ += take_submissions(pending_);
    if (waiting_ + under_way_ == 0) return false;
    Opened* opened = opened_.load(std::memory_order_acquire);
    assert(opened && "submitted before open()");
    bool worked = drain_first && drain(*opened);
    worked = start_groups(*opened) || worked;
    if (!drain_first && waiting_ > 0 && drain(*opened)) {
        start_groups(*opened);
        worked = true;
    }
    load_.store(waiting_ + under_way_, std::memory_order_relaxed);
    return worked;
}

bool DeviceCopyRail::drain(Opened& opened) noexcept {
    bool worked = false;
    for (const std::unique_ptr<Stream>& stream : opened.streams) {
        while (stream->count > 0) {
            const Status status = stream->copies.poll(stream->first);
            if (status == Status::in_progress) break;
            const Group group = stream->groups[stream->first];
            stream->first = (stream->first + 1) % groups_per_stream;
            --stream->count;
            --under_way_;
            worked = true;
            end_group(group, status);
        }
    }
    return worked;
}

/// A copy says nothing of whose memory it has reached: that is looked up once more.
void DeviceCopyRail::end_group(const Group& group, Status status) noexcept {
    Work& work = *group.work;
    if (status == Status::ok && group.route->path) status = look_again(work, *group.route, group.run);
    if (status == Status::ok) {
        const auto kind = static_cast<std::size_t>(work.kind);
        counters_.operations[kind] += group.run.size();
        counters_.bytes[kind] += group.bytes;
    } else {
        counters_.count_error(status);
    }
    work.part_done(status, group.run.size());
}

Status DeviceCopyRail::look_again(const Work& work, const Route& route, Run run) noexcept {
    if (const int error = process_of(route).look_now_and_then()) {
        fail_path(route, error);
        return Status::remote_disconnect;
    }
    if (work.kind == Work::Kind::write) return Status::ok;
    const auto vouched = [&](const Chunk& chunk) { return is_vouched_for(route, chunk); };
    return std::all_of(work.chunks.data() + run.begin, work.chunks.data() + run.end, vouched)
               ? Status::ok
               : Status::backend;
}

bool DeviceCopyRail::is_vouched_for(const Route& route, const Chunk& chunk) noexcept {
    return process_of(route).vouches_for(route.keys[chunk.remote_region].key);
}

/// The next stream with room; nullptr: all are full.
DeviceCopyRail::Stream* DeviceCopyRail::stream_with_room(Opened& opened) noexcept {
    for (std::size_t i = 0; i < opened.streams.size(); ++i) {
        const std::size_t index = (opened.next_stream + i) % opened.streams.size();
        if (opened.streams[index]->full()) continue;
        opened.next_stream = index + 1;
        return opened.streams[index].get();
    }
    return nullptr;
}

/// Round robin by group.
bool DeviceCopyRail::start_groups(Opened& opened) noexcept {
    bool worked = false;
    PendingList<Submission> kept;
    Stream* stream = nullptr;
    while (!pending_.empty()) {
        Submission& submission = *pending_.pop_front();
        if (has_chunks(submission)) {
            if (!stream) stream = stream_with_room(opened);
            if (!stream) {
                kept.push_back(submission);
                continue;
            }
            start_group(*stream, submission);
            stream = nullptr;
            pending_.push_back(submission);
        } else {
            --waiting_;
            submission.lane->work->part_done(Status::ok);
        }
        worked = true;
    }
    pending_.prepend(kept);
    return worked;
}

/// False: none is left that could be copied. Else the first of its run may be.
bool DeviceCopyRail::has_chunks(Submission& submission) noexcept {
    Work& work = *submission.lane->work;
    const Route& route = *submission.route;
    if (work.status() != Status::ok) {
        fail_rest(submission, work.status());
        return false;
    }
    if (route.path && !is_there(submission)) return false;
    while (true) {
        if (submission.run.empty()) submission.run = submission.lane->take_run(chunks_per_group);
        if (submission.run.empty()) return false;
        if (!route.path || is_vouched_for(route, work.chunks[submission.run.begin])) return true;
        if (const int error = process_of(route).look()) {
            lose(submission, error);
            return false;
        }
        refuse(submission);
    }
}

/// The peer's process; else the submission has gone another way, or is over.
bool DeviceCopyRail::is_there(Submission& submission) noexcept {
    if (submission.route->path->failed()) {
        leave(submission);
        return false;
    }
    const int error = process_of(*submission.route).look_now_and_then();
    if (error) lose(submission, error);
    return !error;
}

/// Chunks whose bytes adjoin on both sides are one copy, unless they are of different registrations: what the
/// driver has allocated, pinned or mapped in several pieces may adjoin, and it refuses copies that leave one.
void DeviceCopyRail::start_group(Stream& stream, Submission& submission) noexcept {
    Work& work = *submission.lane->work;
    const Route& route = *submission.route;
    const bool read = work.kind == Work::Kind::read;
    const unsigned ticket = (stream.first + stream.count) % groups_per_stream;
    const std::uint32_t begin = submission.run.begin;
    cuda::CopyStream::Group group(stream.copies, ticket,
                                  route.threads_reach ? cuda::Reach::gpus : cuda::Reach::unknown);
    cuda::Copy copy;
    Run& run = submission.run;
    const Chunk* before = nullptr;
    std::uint64_t bytes = 0;
    for (; !run.empty() && bytes < bytes_per_group; ++run.begin) {
        const Chunk& chunk = work.chunks[run.begin];
        // The first one was asked for a moment ago: a group of none would hold no part of its work.
        if (route.path && run.begin != begin && !is_vouched_for(route, chunk)) break;
        const std::uint64_t there =
            chunk.remote - (route.path ? route.keys[chunk.remote_region].address_base : 0);
        const cuda::Copy next = read ? cuda::Copy{chunk.local, there, chunk.length}
                                     : cuda::Copy{there, chunk.local, chunk.length};
        bytes += next.length;
        const Chunk* const last = std::exchange(before, &chunk);
        if (last && last->local_region == chunk.local_region && last->remote_region == chunk.remote_region &&
            copy.to + copy.length == next.to && copy.from + copy.length == next.from) {
            copy.length += next.length;
            continue;
        }
        group.add(copy);
        copy = next;
    }
    group.add(copy);
    stream.groups[ticket] = {&work, &route, {begin, run.begin}, bytes};
    ++stream.count;
    ++under_way_;
}

}  // namespace railyard
