// The target's account of notifications: which transfer announced itself how often, and by whom.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace railyard::bench {

/// One thread.
class NotificationAccount {
  public:
    /// Starts a phase: only `sender` may announce transfers 0 .. window-1 of `point`.
    void begin(std::string sender, unsigned point, unsigned window);
    /// The transfer that the notification announces; nothing where it is wrong, which wrong() then tells.
    std::optional<unsigned> take(std::string_view sender, std::string_view message);

    [[nodiscard]] std::uint64_t received() const noexcept { return received_; }
    /// What is wrong, given how often each transfer was posted; nothing when every one announced itself
    /// exactly once.
    [[nodiscard]] std::optional<std::string> wrong(const std::vector<std::uint64_t>& posts) const;

  private:
    std::string sender_;
    std::string prefix_;
    std::vector<std::uint64_t> counts_;
    std::uint64_t received_ = 0;
    std::optional<std::string> first_wrong_;
};

}  // namespace railyard::bench
