// Points, layout, and the contents that prove a transfer.
#include "workload.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include "size_list.h"

namespace railyard::bench {

namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t golden = 0x9e3779b97f4a7c15u;

std::uint64_t round_up(std::uint64_t value, std::uint64_t to) {
    return (value + to - 1) / to * to;
}

/// SplitMix64's finaliser: every bit of the input moves half the bits of the result.
std::uint64_t mix(std::uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

/// The words of one block, or of its guards; `flip` is all ones for the scrubbed form.
class Pattern {
  public:
    Pattern(std::uint64_t seed, std::uint64_t block, std::uint64_t flip = 0)
        : state_(mix(seed + golden * (block + 1))), flip_(flip) {}

    std::uint64_t next() {
        state_ += golden;
        return mix(state_) ^ flip_;
    }

    void write(std::byte* to, std::uint64_t length) {
        std::uint64_t done = 0;
        for (; done + 8 <= length; done += 8)
            put(to + done, 8);
        if (done < length) put(to + done, length - done);
    }

    /// Offset of the first word that differs, or `length`.
    std::uint64_t compare(const std::byte* with, std::uint64_t length) {
        std::uint64_t done = 0;
        for (; done + 8 <= length; done += 8) {
            std::uint64_t have = 0;
            std::memcpy(&have, with + done, 8);
            if (have != next()) return done;
        }
        if (done < length) {
            std::uint64_t word = next();
            if (std::memcmp(with + done, &word, length - done) != 0) return done;
        }
        return length;
    }

  private:
    void put(std::byte* to, std::uint64_t length) {
        std::uint64_t word = next();
        std::memcpy(to, &word, length);
    }

    std::uint64_t state_;
    std::uint64_t flip_;
};

constexpr std::uint64_t guard_salt = 0x6775617264u;

void fill(std::span<std::byte> memory, const Layout& layout, std::uint64_t seed, std::uint64_t flip) {
    for (unsigned slot = 0; slot < layout.window; ++slot) {
        for (unsigned block = 0; block < layout.batch; ++block) {
            std::uint64_t number = std::uint64_t{slot} * layout.batch + block;
            std::byte* at = memory.data() + layout.offset(slot, block);
            Pattern guards(seed ^ guard_salt, number);
            guards.write(at - Layout::guard, Layout::guard);
            Pattern(seed, number, flip).write(at, layout.size);
            guards.write(at + layout.size, Layout::guard);
        }
    }
}

std::string place(const Layout& layout, unsigned slot, unsigned block, std::uint64_t seed) {
    return "transfer " + std::to_string(slot) + ", block " + std::to_string(block) + " of " +
           std::to_string(layout.batch) + " (" + format_size(layout.size) + ", seed " + std::to_string(seed) +
           ")";
}

}  // namespace

std::uint64_t Layout::lead() const noexcept {
    return size >= page ? page : guard;
}

std::uint64_t Layout::stride() const noexcept {
    return size >= page ? round_up(size, page) + page : round_up(size, guard) + 2 * guard;
}

bool Layout::fits(std::uint64_t room) const noexcept {
    if (size > room) return false;  // so that a stride is no sum that wraps
    std::uint64_t blocks = 0;
    return !__builtin_mul_overflow(std::uint64_t{window} * batch, stride(), &blocks) && lead() <= room &&
           blocks <= room - lead();
}

const char* to_string(host::Op op) noexcept {
    return op == host::Op::write ? "write" : "read";
}

std::string describe(const Point& point) {
    return std::string(to_string(point.op)) + " of " + format_size(point.layout.size) + ", batch " +
           std::to_string(point.layout.batch) + ", window " + std::to_string(point.layout.window) +
           ", notify " + (point.notify ? "on" : "off");
}

std::vector<Point> make_points(const Options& options) {
    std::vector<Point> points;
    for (host::Op op : options.ops) {
        for (bool notify : options.notify) {
            for (unsigned batch : options.batches) {
                for (std::uint64_t size : options.sizes) {
                    Layout layout{size, batch, 1};
                    std::uint64_t per_transfer = layout.stride() * batch;
                    std::uint64_t room = options.memory > layout.lead() ? options.memory - layout.lead() : 0;
                    if (size > options.memory || per_transfer > room) {
                        throw std::invalid_argument("a transfer of " + std::to_string(batch) + " x " +
                                                    format_size(size) + " needs more than --memory " +
                                                    format_size(options.memory) +
                                                    ": raise --memory or ask for less");
                    }
                    layout.window =
                        static_cast<unsigned>(std::min<std::uint64_t>(options.window, room / per_transfer));
                    points.push_back({op, layout, notify, static_cast<unsigned>(points.size())});
                }
            }
        }
    }
    return points;
}

std::uint64_t memory_needed(std::span<const Point> points) {
    std::uint64_t most = page;
    for (const Point& point : points)
        most = std::max(most, point.layout.bytes());
    return round_up(most, page);
}

void fill_source(std::span<std::byte> memory, const Layout& layout, std::uint64_t seed) {
    fill(memory, layout, seed, 0);
}

void scrub_destination(std::span<std::byte> memory, const Layout& layout, std::uint64_t seed) {
    fill(memory, layout, seed, ~std::uint64_t{0});
}

std::optional<std::string> check_slot(std::span<const std::byte> memory, const Layout& layout,
                                      std::uint64_t seed, unsigned slot) {
    for (unsigned block = 0; block < layout.batch; ++block) {
        std::uint64_t number = std::uint64_t{slot} * layout.batch + block;
        const std::byte* at = memory.data() + layout.offset(slot, block);
        Pattern guards(seed ^ guard_salt, number);
        if (guards.compare(at - Layout::guard, Layout::guard) != Layout::guard) {
            return place(layout, slot, block, seed) + ": the guard bytes before the block were overwritten";
        }
        std::uint64_t same = Pattern(seed, number).compare(at, layout.size);
        if (same != layout.size) {
            return place(layout, slot, block, seed) + ": wrong data from byte " + std::to_string(same) +
                   " on";
        }
        if (guards.compare(at + layout.size, Layout::guard) != Layout::guard) {
            return place(layout, slot, block, seed) + ": the guard bytes behind the block were overwritten";
        }
    }
    return std::nullopt;
}

std::optional<std::string> check_destination(std::span<const std::byte> memory, const Layout& layout,
                                             std::uint64_t seed) {
    for (unsigned slot = 0; slot < layout.window; ++slot) {
        if (auto wrong = check_slot(memory, layout, seed, slot)) return wrong;
    }
    return std::nullopt;
}

void corrupt(Corrupt kind, std::span<std::byte> memory, const Layout& layout) {
    if (kind != Corrupt::data && kind != Corrupt::guard) return;
    std::uint64_t last = layout.offset(layout.window - 1, layout.batch - 1) + layout.size - 1;
    memory[kind == Corrupt::data ? last : last + 1] ^= std::byte{1};
}

}  // namespace railyard::bench
