#include "rail/host_rail.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "common/mapping.h"

namespace railyard {
namespace {

constexpr std::size_t pieces_per_call = HostRail::pieces_per_call;
constexpr std::size_t words_per_call = HostRail::words_per_call;

/// Pieces of one side, those that touch made one.
class Pieces {
  public:
    void add(std::uint64_t address, std::uint64_t length) noexcept {
        iovec* const last = count_ > 0 ? &pieces_[count_ - 1] : nullptr;
        if (last && reinterpret_cast<std::uint64_t>(last->iov_base) + last->iov_len == address) {
            last->iov_len += length;
        } else {
            pieces_[count_++] = {reinterpret_cast<void*>(address), length};
        }
    }
    [[nodiscard]] const iovec* data() const noexcept { return pieces_.data(); }
    [[nodiscard]] std::size_t count() const noexcept { return count_; }

  private:
    std::array<iovec, pieces_per_call> pieces_;
    std::size_t count_ = 0;
};

/// What one call moves: the next chunks of a submission's run.
class Call {
  public:
    Call(const Submission& submission, HostProcess& process, std::uint64_t most) noexcept;
    /// Bytes that were moved, or the negative of an error; ESTALE: memory that may not be touched.
    [[nodiscard]] ssize_t move() noexcept;

  private:
    [[nodiscard]] bool add_word(const RemoteKey& key) noexcept;
    [[nodiscard]] bool allowed() const noexcept;

    const Work& work_;
    const Route& route_;
    HostProcess& process_;
    Pieces here_, there_;
    std::uint64_t bytes_ = 0;
    std::array<std::uint64_t, words_per_call> words_;
    std::size_t word_count_ = 0;
};

Call::Call(const Submission& submission, HostProcess& process, std::uint64_t most) noexcept
    : work_(*submission.lane->work), route_(*submission.route), process_(process) {
    std::uint64_t done = submission.moved;
    const auto full = [&] { return std::max(here_.count(), there_.count()) == pieces_per_call; };
    for (std::uint32_t i = submission.run.begin; i < submission.run.end && bytes_ < most && !full(); ++i) {
        const Chunk& chunk = work_.chunks[i];
        if (!add_word(route_.keys[chunk.remote_region])) return;
        const std::uint64_t length = std::min(chunk.length - done, most - bytes_);
        here_.add(chunk.local + done, length);
        there_.add(chunk.remote + done, length);
        bytes_ += length;
        done = 0;
    }
}

/// False: there are too many.
bool Call::add_word(const RemoteKey& key) noexcept {
    // Neighbours mostly share one.
    for (std::size_t i = word_count_; i-- > 0;) {
        if (words_[i] == key.key) return true;
    }
    if (word_count_ == words_per_call) return false;
    words_[word_count_++] = key.key;
    return true;
}

bool Call::allowed() const noexcept {
    return std::all_of(words_.begin(), words_.begin() + static_cast<std::ptrdiff_t>(word_count_),
                       [&](std::uint64_t word) { return process_.vouches_for(word); });
}

ssize_t Call::move() noexcept {
    const bool read = work_.kind == Work::Kind::read;
    if (const int error = process_.look_now_and_then()) return -error;
    if (!read && !allowed()) return -ESTALE;
    const ssize_t moved = (read ? process_vm_readv : process_vm_writev)(
        process_.pid(), here_.data(), here_.count(), there_.data(), there_.count(), 0);
    const int error = moved < 0 ? errno : moved == 0 ? EFAULT : 0;
    if ((read || error == EFAULT) && !allowed()) return -ESTALE;
    return error ? -error : moved;
}

}  // namespace

RegisteredMemory HostRail::register_memory(const MemoryRange& range) {
    RegisteredMemory memory;
    memory.key = card_->issue(range.key);
    if (memory.key == 0) return memory;
    struct Issued {
        Issued(std::shared_ptr<HostCard> from, std::uint64_t issued) : card(std::move(from)), word(issued) {}
        Issued(const Issued&) = delete;
        Issued& operator=(const Issued&) = delete;
        ~Issued() { card->revoke(word); }
        std::shared_ptr<HostCard> card;
        std::uint64_t word;
    };
    try {
        memory.owner = std::make_shared<Issued>(card_, memory.key);
    } catch (...) {
        card_->revoke(memory.key);
        throw;
    }
    return memory;
}

PeerAddress HostRail::do_insert_peer(std::string_view address) {
    return reinterpret_cast<PeerAddress>(
        processes_.emplace_back(std::make_unique<HostProcess>(address)).get());
}

void HostRail::do_remove_peer(PeerAddress peer) noexcept {
    std::erase_if(processes_, [&](const auto& process) {
        return process.get() == reinterpret_cast<const HostProcess*>(peer);
    });
}

bool HostRail::reaches(PeerAddress peer) const noexcept {
    return process_at(peer).may_copy() && process_at(peer).look() == 0;
}

bool HostRail::has_ended(PeerAddress peer) const noexcept {
    const int error = process_at(peer).look();
    return error == ESRCH || may_not_be_copied_to(error);
}

bool HostRail::may_not_be_copied_to(int error) const noexcept {
    return ends_unseen_ && (error == ESTALE || error == EFAULT);
}

bool HostRail::serve(bool) noexcept {
    waiting_ += take_submissions(pending_);
    bool worked = false;
    const std::uint64_t limit = moved_ + bytes_per_round;
    while (!pending_.empty() && moved_ < limit) {
        Submission& submission = *pending_.pop_front();
        worked = true;
        const std::uint64_t room = limit - moved_;
        if (carry(submission, pending_.empty() ? room : std::min(room, bytes_per_turn))) {
            pending_.push_back(submission);
        } else {
            --waiting_;
            submission.lane->work->part_done(Status::ok);
        }
    }
    load_.store(waiting_, std::memory_order_relaxed);
    bytes_carried_.store(moved_, std::memory_order_relaxed);
    return worked;
}

/// One call for it; false: it is through.
bool HostRail::carry(Submission& submission, std::uint64_t room) noexcept {
    Work& work = *submission.lane->work;
    if (work.status() != Status::ok) {
        fail_rest(submission, work.status());
        return false;
    }
    if (submission.route->path->failed()) {
        leave(submission);
        return false;
    }
    if (submission.run.empty()) {
        submission.run = submission.lane->take_run(pieces_per_call);
        submission.moved = 0;
        if (submission.run.empty()) return false;
    }
    const ssize_t moved = Call(submission, process_of(*submission.route), room).move();
    if (moved < 0) return fail(submission, static_cast<int>(-moved));
    count_moved(submission, static_cast<std::uint64_t>(moved));
    if (!submission.run.empty()) return true;
    submission.run = submission.lane->take_run(pieces_per_call);
    return !submission.run.empty();
}

bool HostRail::post_at_once(Submission& submission) noexcept {
    if (!pending_.empty() || carry(submission, bytes_per_round)) return false;
    bytes_carried_.store(moved_, std::memory_order_relaxed);
    submission.lane->work->part_done(Status::ok);
    return true;
}

void HostRail::count_moved(Submission& submission, std::uint64_t bytes) noexcept {
    Work& work = *submission.lane->work;
    const auto kind = static_cast<std::size_t>(work.kind);
    moved_ += bytes;
    for (Run& run = submission.run; !run.empty(); ++run.begin) {
        const std::uint64_t left = work.chunks[run.begin].length - submission.moved;
        if (bytes < left) {
            submission.moved += static_cast<std::uint32_t>(bytes);
            return;
        }
        bytes -= left;
        submission.moved = 0;
        ++counters_.operations[kind];
        // Not before: what is left halfway goes as a whole over another rail, which counts it.
        counters_.bytes[kind] += work.chunks[run.begin].length;
        work.part_done(Status::ok);
    }
}

bool HostRail::fail(Submission& submission, int error) noexcept {
    // Each may also be for want of the process: by now its number may be another one's, or nobody's.
    if (error == ESTALE || error == EFAULT || error == ESRCH) {
        if (const int gone = process_of(*submission.route).look()) {
            if (may_not_be_copied_to(gone)) {
                disconnect(submission);
            } else {
                lose(submission, gone);
            }
            return false;
        }
    }
    if (error == EFAULT) submission.kept_from_rail = is_kept_from_us(submission);
    if (error == ESTALE || (error == EFAULT && !submission.kept_from_rail)) {
        refuse(submission);
        return true;
    }
    // The fabric may carry it all the same. For want of memory others may do better this once.
    if (error == EFAULT || error == ENOMEM) {
        leave(submission);
    } else {
        lose(submission, error);
    }
    return false;
}

/// As with memfd_secret, and mappings that drivers make of devices or of what they allocated. All else that
/// is mapped has no page for it (a file that was cut short, a full tmpfs), and whoever touches it there is
/// ended by SIGBUS, the target over tcp, too: what cannot be seen, as no descriptor is left, is taken for
/// that. Of our side the kernel takes what we may touch ourselves.
bool HostRail::is_kept_from_us(const Submission& submission) const noexcept {
    if (fabric_copies_alike_) return false;
    const Work& work = *submission.lane->work;
    const Chunk& chunk = work.chunks[submission.run.begin];
    const auto here = mapping_at(getpid(), chunk.local + submission.moved);
    const auto there = mapping_at(process_of(*submission.route).pid(), chunk.remote + submission.moved);
    if (!here || !there) return false;
    const bool write = work.kind == Work::Kind::write;
    if (!(write ? here->readable && there->writable : there->readable && here->writable)) return false;
    return is_kept_at(process_of(*submission.route).pid(), chunk.remote + submission.moved);
}

}  // namespace railyard
