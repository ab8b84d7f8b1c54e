#include "provider/transmit.h"

#include <algorithm>
#include <new>

#include "provider/delivery.h"
#include "provider/network_model.h"

namespace simefa {
namespace {

constexpr std::size_t internal_operations = 1024;
constexpr std::size_t operations_per_progress = 256;
constexpr std::uint64_t bytes_per_progress = 8 << 20;

}  // namespace

/// Counts of one progress call, added to the shared counters once.
struct TransmitQueue::Batch {
    std::size_t ended = 0, errors = 0, writes = 0, reads = 0, sends = 0;
    std::uint64_t bytes_out = 0, bytes_in = 0, bytes = 0;
};

TransmitQueue::TransmitQueue(Nic& nic, OperationOwner& endpoint, std::size_t depth)
    : nic_(nic),
      endpoint_(endpoint),
      depth_(depth),
      pool_(nullptr),
      pool_size_(depth * 2 + internal_operations),
      wire_(pool_size_) {
    // Constructed one by one when first used, so that an idle endpoint does not touch the memory.
    pool_ = static_cast<Operation*>(::operator new(pool_size_ * sizeof(Operation)));
}

TransmitQueue::~TransmitQueue() {
    drop_all();
    ::operator delete(pool_);
}

Operation* TransmitQueue::allocate_internal() noexcept {
    Operation* operation = free_;
    if (operation) {
        free_ = operation->next;
    } else if (pool_used_ < pool_size_) {
        operation = pool_ + pool_used_++;
    } else {
        return nullptr;
    }
    new (operation) Operation;
    operation->internal = true;
    return operation;
}

Operation* TransmitQueue::allocate() noexcept {
    if (outstanding_ >= depth_) return nullptr;
    Operation* operation = allocate_internal();
    if (!operation) return nullptr;
    operation->internal = false;
    ++outstanding_;
    return operation;
}

void TransmitQueue::recycle(Operation& operation) noexcept {
    if (operation.peer) operation.peer->release();
    operation.next = free_;
    free_ = &operation;
}

void TransmitQueue::discard(Operation& operation) noexcept {
    if (!operation.internal && !operation.reported) --outstanding_;
    recycle(operation);
}

void TransmitQueue::post(Operation& operation, bool more) noexcept {
    staged_.push_back(operation);
    if (more) {
        const std::uint64_t limit = nic_.get(Setting::max_batch);
        if (staged_.size() < (limit ? limit : default_max_batch)) return;
    }
    ring();
}

void TransmitQueue::ring() noexcept {
    if (staged_.empty()) return;
    NicSlot& slot = nic_.slot();
    slot.count(Counter::doorbells);
    const std::size_t count = staged_.size();
    in_flight_ += count;
    auto& shared = slot.counters[static_cast<std::size_t>(Counter::in_flight)];
    auto& highest = slot.counters[static_cast<std::size_t>(Counter::max_in_flight)];
    const std::uint64_t now_in_flight = shared.fetch_add(count, std::memory_order_relaxed) + count;
    std::uint64_t seen = highest.load(std::memory_order_relaxed);
    while (seen < now_in_flight &&
           !highest.compare_exchange_weak(seen, now_in_flight, std::memory_order_relaxed)) {
    }
    const std::uint64_t now = now_ns();
    while (!staged_.empty()) {
        Operation& operation = staged_.pop_front();
        operation.posted_at = now;
        rung_.push_back(operation);
    }
    nic_.refresh();
    book_rung(now);
}

void TransmitQueue::book_rung(std::uint64_t now) noexcept {
    while (!rung_.empty()) {
        Operation& operation = *rung_.front();
        NicSlot* remote = operation.peer->reach(now) == status_ok ? &operation.peer->remote_nic() : nullptr;
        if (!book(nic_, remote, operation, now)) return;
        rung_.pop_front();
        wire_.push(operation);
    }
}

std::size_t TransmitQueue::progress(std::uint64_t now) noexcept {
    if (in_flight_ == 0) return 0;
    Batch batch;
    Random* shuffle = nic_.get(Setting::out_of_order) ? &nic_.random() : nullptr;
    while (batch.ended < operations_per_progress && batch.bytes < bytes_per_progress) {
        book_rung(now);
        Operation* operation = wire_.pop_due(now, shuffle);
        if (!operation) break;
        if (!carry_out(*operation, now, batch)) continue;
    }
    settle(batch);
    return batch.ended;
}

/// A failure that is reported now while the bytes land later, unless the endpoint is closed before.
bool TransmitQueue::pretend_failure(Operation& operation, std::uint64_t now) noexcept {
    if (!nic_.strikes(Setting::late_probability, Setting::late_next)) return false;
    const std::uint64_t code = nic_.get(Setting::error_code);
    Operation told = operation;
    endpoint_.operation_done(told, code ? static_cast<int>(code) : status_unresponsive);
    nic_.slot().count(Counter::errors);
    operation.reported = true;
    --outstanding_;
    ++late_;
    retry(operation, now + nic_.get(Setting::late_delay));
    return true;
}

/// False: not ended yet, it is back on the wire.
bool TransmitQueue::carry_out(Operation& operation, std::uint64_t now, Batch& batch) noexcept {
    int status = operation.local_status;
    if (!operation.decided && status == status_ok) {
        operation.decided = true;
        if (!operation.internal && pretend_failure(operation, now)) return false;
        if (nic_.strikes(Setting::error_probability, Setting::error_next)) {
            const std::uint64_t code = nic_.get(Setting::error_code);
            status = code ? static_cast<int>(code) : status_unresponsive;
        } else if (operation.kind == Operation::Kind::send &&
                   nic_.strikes(Setting::rnr_probability, Setting::rnr_next)) {
            status = status_not_ready;
        } else {
            operation.answer_lost = !operation.internal && nic_.strikes(Setting::lost_answer_next);
        }
    }
    if (status == status_ok) status = deliver(operation, sender, nic_, now);
    if (status == status_ok && operation.answer_lost) status = status_unresponsive;
    if (status == no_answer_yet) {
        retry(operation, now + operation.retry_delay);
        return false;
    }
    finish(operation, status, batch);
    return true;
}

void TransmitQueue::retry(Operation& operation, std::uint64_t at) noexcept {
    operation.due = at;
    wire_.push(operation);
}

void TransmitQueue::finish(Operation& operation, int status, Batch& batch) noexcept {
    ++batch.ended;
    --in_flight_;
    batch.bytes += operation.length;
    if (status != status_ok) {
        ++batch.errors;
    } else if (operation.kind == Operation::Kind::read) {
        ++batch.reads;
        batch.bytes_in += operation.length;
        operation.peer->remote_nic().count(Counter::bytes_out, operation.length);
    } else {
        ++(operation.kind == Operation::Kind::write ? batch.writes : batch.sends);
        batch.bytes_out += operation.length;
        operation.peer->remote_nic().count(Counter::bytes_in, operation.length);
    }
    if (operation.reported) {
        --late_;
        recycle(operation);
        return;
    }
    if (!operation.internal) --outstanding_;
    if (operation.owner) {
        operation.owner->operation_done(operation, status);
    } else {
        endpoint_.operation_done(operation, status);
    }
    recycle(operation);
}

void TransmitQueue::settle(Batch& batch) noexcept {
    NicSlot& slot = nic_.slot();
    if (batch.ended == 0) return;
    slot.counters[static_cast<std::size_t>(Counter::in_flight)].fetch_sub(batch.ended,
                                                                          std::memory_order_relaxed);
    slot.count(Counter::completions, batch.ended);
    if (batch.errors) slot.count(Counter::errors, batch.errors);
    if (batch.writes) slot.count(Counter::writes, batch.writes);
    if (batch.reads) slot.count(Counter::reads, batch.reads);
    if (batch.sends) slot.count(Counter::sends, batch.sends);
    if (batch.bytes_out) slot.count(Counter::bytes_out, batch.bytes_out);
    if (batch.bytes_in) slot.count(Counter::bytes_in, batch.bytes_in);
}

std::uint64_t TransmitQueue::next_due() const noexcept {
    std::uint64_t due = wire_.next_due();
    if (!rung_.empty()) {
        const Operation& first = *rung_.front();
        due = std::min(due, bookable_at(nic_, first.peer->known_remote_nic(), first));
    }
    return due;
}

void TransmitQueue::drop_all() noexcept {
    nic_.slot().counters[static_cast<std::size_t>(Counter::in_flight)].fetch_sub(in_flight_,
                                                                                 std::memory_order_relaxed);
    in_flight_ = late_ = 0;
    while (!staged_.empty())
        discard(staged_.pop_front());
    while (!rung_.empty())
        discard(rung_.pop_front());
    while (Operation* operation = wire_.pop_any())
        discard(*operation);
}

}  // namespace simefa
