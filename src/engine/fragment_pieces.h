// What has arrived of a message that comes in fragments, in whatever order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace railyard {

/// Holds the bytes that have come and none for those that have not, whatever the sender announces. One piece
/// while fragments come in order. A fragment that begins where no other has ended is a piece of its own and
/// is copied once more at the end, so hostile orders cost memory and time in proportion to their fragments.
class FragmentPieces {
  public:
    /// What a piece costs besides its bytes.
    static constexpr std::size_t piece_overhead = 128;

    /// Puts the bytes at `begin`; false, and nothing changed, when any of them was there already. There is at
    /// least one, and they end below 4 GiB.
    bool add(std::uint32_t begin, std::string_view bytes) {
        const std::uint64_t end = begin + std::uint64_t{bytes.size()};
        const auto after = pieces_.lower_bound(begin);
        if (after != pieces_.end() && after->first < end) return false;
        const auto before = after == pieces_.begin() ? pieces_.end() : std::prev(after);
        const std::uint64_t reached = before == pieces_.end() ? 0 : before->first + before->second.size();
        if (reached > begin) return false;
        if (before != pieces_.end() && reached == begin) {
            before->second.append(bytes);
        } else {
            pieces_.emplace_hint(after, begin, bytes);
        }
        bytes_ += bytes.size();
        return true;
    }
    /// True when these very bytes, of which there is at least one, have come.
    [[nodiscard]] bool has(std::uint32_t begin, std::string_view bytes) const {
        auto piece = pieces_.upper_bound(begin);
        if (piece == pieces_.begin()) return false;
        for (--piece; piece != pieces_.end() && piece->first <= begin; ++piece) {
            const std::size_t skipped = begin - piece->first;
            if (skipped >= piece->second.size()) return false;
            const std::string_view there = std::string_view(piece->second).substr(skipped, bytes.size());
            if (bytes.substr(0, there.size()) != there) return false;
            if (there.size() == bytes.size()) return true;
            bytes.remove_prefix(there.size());
            begin += static_cast<std::uint32_t>(there.size());
        }
        return false;
    }
    /// True when every byte of a message of that length has come, given that none behind its end was added.
    [[nodiscard]] bool whole(std::uint32_t total) const noexcept { return bytes_ == total; }
    /// Bytes that it holds, roughly.
    [[nodiscard]] std::size_t held() const noexcept { return bytes_ + pieces_.size() * piece_overhead; }
    /// The whole message, once whole(). Where that throws std::bad_alloc, all of it is still here.
    [[nodiscard]] std::string take() {
        std::string& message = pieces_.begin()->second;
        message.reserve(bytes_);
        const auto rest = std::next(pieces_.begin());
        for (auto piece = rest; piece != pieces_.end(); ++piece)
            message += piece->second;
        pieces_.erase(rest, pieces_.end());
        return std::move(message);
    }
    /// What take() has returned.
    void put_back(std::string message) noexcept { pieces_.begin()->second = std::move(message); }

  private:
    std::map<std::uint32_t, std::string> pieces_;
    std::size_t bytes_ = 0;
};

}  // namespace railyard
