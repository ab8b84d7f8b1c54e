// Raw endpoint addresses, packed: thousands of peers have tens each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace railyard {

class AddressList {
  public:
    explicit AddressList(const std::vector<std::string>& addresses) {
        std::size_t bytes = 0;
        for (const std::string& address : addresses)
            bytes += address.size();
        bytes_.reserve(bytes);
        ends_.reserve(addresses.size());
        for (const std::string& address : addresses) {
            bytes_ += address;
            ends_.push_back(static_cast<std::uint32_t>(bytes_.size()));
        }
    }
    [[nodiscard]] std::size_t size() const noexcept { return ends_.size(); }
    /// Throws std::out_of_range.
    [[nodiscard]] std::string_view at(std::size_t index) const {
        const std::uint32_t end = ends_.at(index), begin = index == 0 ? 0 : ends_[index - 1];
        return std::string_view(bytes_).substr(begin, end - begin);
    }
    [[nodiscard]] std::vector<std::string> unpacked() const {
        std::vector<std::string> addresses;
        for (std::size_t i = 0; i < size(); ++i)
            addresses.emplace_back(at(i));
        return addresses;
    }
    bool operator==(const AddressList&) const = default;
    bool operator==(const std::vector<std::string>& addresses) const {
        std::size_t index = 0;
        return addresses.size() == size() &&
               std::all_of(addresses.begin(), addresses.end(),
                           [&](const std::string& address) { return at(index++) == address; });
    }

  private:
    std::string bytes_;
    std::vector<std::uint32_t> ends_;  ///< of each address in the bytes
};

}  // namespace railyard
