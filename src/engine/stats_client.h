// Somebody who has connected to the statistics' socket: what he wants, and how far he has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace railyard {

/// Whoever says nothing gets the report as it is, who sends an HTTP request an HTTP answer. Never waits, and
/// does a bounded piece of work a call. One thread at a time.
class StatsClient {
  public:
    /// Who has said nothing for so long is not going to ask.
    static constexpr std::uint64_t silence_ns = 100'000'000;
    /// From the connection to the last byte; later it is cut off.
    static constexpr std::uint64_t limit_ns = 5'000'000'000;
    static constexpr std::size_t longest_request = 8192;
    static constexpr std::size_t bytes_per_call = std::size_t{1} << 20;

    using Report = std::shared_ptr<const std::string>;

    /// Owns the socket.
    StatsClient(int fd, std::uint64_t now_ns) noexcept : fd_(fd), since_(now_ns) {}
    ~StatsClient();
    StatsClient(const StatsClient&) = delete;
    StatsClient& operator=(const StatsClient&) = delete;

    /// Reads what has been asked and sends what can be sent. `report` is called when it is needed, at most
    /// once. True: it is over, with the report or without.
    [[nodiscard]] bool serve(std::uint64_t now_ns, const std::function<Report()>& report);

  private:
    enum class Wish { unknown, plain, http, wrong_method, malformed };
    bool listen() noexcept;
    [[nodiscard]] Wish wish(std::uint64_t now_ns) const;
    void answer(Wish wish, const std::function<Report()>& report);
    bool send(const std::string& text, std::size_t offset, std::size_t& room) noexcept;

    const int fd_;
    const std::uint64_t since_;  ///< ns
    std::string request_;
    bool request_ended_ = false;
    bool answered_ = false;
    std::string head_;  ///< of HTTP
    Report body_;
    std::size_t sent_ = 0;  ///< of both
};

}  // namespace railyard
