// Little-endian fields in a byte string, and a reader that cannot leave it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace railyard {

class WireWriter {
  public:
    explicit WireWriter(std::string& out) : out_(out) {}
    template <class Integer>
    void number(Integer value) {
        for (std::size_t i = 0; i < sizeof(Integer); ++i) {
            out_ += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i));
        }
    }
    /// 32-bit length, then the bytes.
    void bytes(std::string_view value) {
        number(static_cast<std::uint32_t>(value.size()));
        out_ += value;
    }

  private:
    std::string& out_;
};

/// After the first field that does not fit, every further one reads as zero or empty and ok() is false.
class WireReader {
  public:
    explicit WireReader(std::string_view in) : in_(in) {}
    template <class Integer>
    Integer number() {
        if (!take(sizeof(Integer))) return 0;
        std::uint64_t value = 0;
        for (std::size_t i = 0; i < sizeof(Integer); ++i) {
            value |=
                static_cast<std::uint64_t>(static_cast<unsigned char>(in_[offset_ - sizeof(Integer) + i]))
                << (8 * i);
        }
        return static_cast<Integer>(value);
    }
    /// A view into the input; at most `limit` bytes long, else the reader fails.
    std::string_view bytes(std::size_t limit) {
        const auto size = number<std::uint32_t>();
        return size <= limit ? raw(size) : fail();
    }
    std::string_view raw(std::size_t size) {
        return take(size) ? in_.substr(offset_ - size, size) : std::string_view();
    }
    [[nodiscard]] std::string_view rest() { return raw(in_.size() - offset_); }
    [[nodiscard]] bool ok() const { return ok_; }
    /// ok, and nothing is left over.
    [[nodiscard]] bool whole() const { return ok_ && offset_ == in_.size(); }

  private:
    bool take(std::size_t size) {
        if (!ok_ || in_.size() - offset_ < size) {
            ok_ = false;
            return false;
        }
        offset_ += size;
        return true;
    }
    std::string_view fail() {
        ok_ = false;
        return {};
    }

    std::string_view in_;
    std::size_t offset_ = 0;
    bool ok_ = true;
};

}  // namespace railyard
