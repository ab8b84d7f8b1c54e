// Transfers of the tests: GPU memory on one side, host memory on the other, and a pattern that moves.
#pragma once

#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "../../cuda/on_fake_driver.h"
#include "rail/rail.h"

namespace railyard::test {

using cuda::ContextPtr;
using cuda::DeviceBuffer;
using cuda::fake;
using cuda::OnFakeDriver;

/// One round of a work with one lane.
inline void start_round(Rail& rail, Work& work, Submission& submission, const Route& route) {
    submission.lane = &work.lanes.front();
    submission.route = &route;
    submission.run = {};
    submission.rearm();
    work.arm(1, nullptr);
    rail.submit(submission);
}

inline std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
    std::vector<std::byte> out(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
        out[i] = static_cast<std::byte>((i + seed) * 2654435761U >> 13);
    return out;
}

inline std::vector<std::byte> content(std::uint64_t device_address, std::size_t bytes) {
    std::vector<std::byte> out(bytes);
    EXPECT_EQ(fake().gpu_read(device_address, out.data(), bytes), 0U);
    return out;
}

/// Drives `progress` until `done`, ten seconds at most; false when that was not enough.
template <class Done, class Progress>
[[nodiscard]] bool drive(Done done, Progress progress) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!done()) {
        if (std::chrono::steady_clock::now() > limit) return false;
        progress();
        std::this_thread::yield();
    }
    return true;
}

/// Two allocations, of which one lies right behind the other.
struct AdjoiningBuffers {
    AdjoiningBuffers(const ContextPtr& context, std::size_t bytes_each) {
        fake().set_adjoining(1);
        first = std::make_unique<DeviceBuffer>(context, bytes_each);
        second = std::make_unique<DeviceBuffer>(context, bytes_each);
        fake().set_adjoining(0);
        EXPECT_EQ(first->address() + bytes_each, second->address());
    }
    std::unique_ptr<DeviceBuffer> first, second;
};

/// Descriptors of the given lengths, `gap` bytes apart in GPU memory and adjoining in the host's, cut into
/// chunks of at most `longest` bytes. Every other descriptor is of the second remote region.
class StagedTransfer {
  public:
    struct Shape {
        std::vector<std::uint32_t> lengths;
        std::uint64_t longest = 4096;
        std::uint64_t gap = 0;
    };
    static constexpr std::uint64_t first_base = 0x1000, second_base = 0x7000'0000'0000;

    StagedTransfer(const ContextPtr& context, Work::Kind kind, const Shape& shape, unsigned seed = 1)
        : peer_(total(shape, 0)), device_(context, total(shape, shape.gap)), gap_(shape.gap), shape_(shape) {
        work.kind = kind;
        std::uint64_t local = device_.address(), offset = 0;
        for (std::size_t i = 0; i < shape.lengths.size(); ++i) {
            for (std::uint64_t at = 0; at < shape.lengths[i]; at += shape.longest) {
                const auto length =
                    static_cast<std::uint32_t>(std::min<std::uint64_t>(shape.longest, shape.lengths[i] - at));
                const std::uint64_t base = i % 2 ? second_base : first_base;
                work.chunks.push_back(
                    {local + at, base + offset + at, length, 0, static_cast<std::uint32_t>(i % 2)});
            }
            local += shape.lengths[i] + gap_;
            offset += shape.lengths[i];
        }
        work.lanes.emplace_back(work, 0, static_cast<std::uint32_t>(work.chunks.size()));
        fill(seed);
    }

    /// New bytes at the source, others at the target.
    void fill(unsigned seed) {
        expected_ = pattern(peer_.size(), seed);
        const bool read = work.kind == Work::Kind::read;
        const std::vector<std::byte> nothing(peer_.size());
        std::memcpy(peer_.data(), (read ? expected_ : nothing).data(), peer_.size());
        scatter(read ? nothing : expected_);
    }
    void scatter(const std::vector<std::byte>& bytes) {
        std::uint64_t local = device_.address(), offset = 0;
        for (const std::uint32_t length : shape_.lengths) {
            EXPECT_EQ(fake().gpu_write(local, bytes.data() + offset, length), 0U);
            local += length + gap_;
            offset += length;
        }
    }
    [[nodiscard]] bool arrived() const {
        if (work.kind == Work::Kind::write) return peer_ == expected_;
        std::uint64_t local = device_.address(), offset = 0;
        for (const std::uint32_t length : shape_.lengths) {
            const std::vector<std::byte> there = content(local, length);
            if (std::memcmp(there.data(), expected_.data() + offset, length) != 0) return false;
            local += length + gap_;
            offset += length;
        }
        return true;
    }

    void post(Rail& rail) { start_round(rail, work, submission, route); }
    [[nodiscard]] std::byte* peer() { return peer_.data(); }
    [[nodiscard]] std::uint64_t device_address() const { return device_.address(); }

    Work work;
    Route route;
    Submission submission;

  private:
    static std::uint64_t total(const Shape& shape, std::uint64_t gap) {
        std::uint64_t sum = 0;
        for (const std::uint32_t length : shape.lengths)
            sum += length + gap;
        return sum;
    }

    std::vector<std::byte> peer_, expected_;
    DeviceBuffer device_;
    std::uint64_t gap_;
    Shape shape_;
};

}  // namespace railyard::test
