// What is fuzzed: everything that reads bytes of a peer, and sequences of such bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace railyard::fuzz {

/// Feeds the input to what is fuzzed; true when it took something of it. Ends the process, with a line on
/// stderr, where a promise is broken.
using Target = bool (*)(std::string_view input);

/// By name, as in corpus/NAME and fuzz-NAME.
[[nodiscard]] const std::map<std::string, Target>& targets();

bool fuzz_connection(std::string_view input);
bool fuzz_memory(std::string_view input);
bool fuzz_introduction(std::string_view input);
bool fuzz_acknowledgement(std::string_view input);
bool fuzz_request(std::string_view input);
bool fuzz_eager(std::string_view input);
bool fuzz_eager_read(std::string_view input);
bool fuzz_answer(std::string_view input);
bool fuzz_keys(std::string_view input);
bool fuzz_peer_blob(std::string_view input);
bool fuzz_frame(std::string_view input);
bool fuzz_fragments(std::string_view input);
bool fuzz_control(std::string_view input);
bool fuzz_flow_info(std::string_view input);
bool fuzz_flow_board(std::string_view input);

/// Inputs made by the real encoders, by file name.
[[nodiscard]] std::map<std::string, std::string> seeds(const std::string& target);

/// Ends the process unless `good`: `what` is a promise.
void require(bool good, const char* what);

/// What `decode` returns; nothing where it refuses. Any other error than Error{mismatch} ends the process.
template <class Decode>
auto unless_refused(Decode decode) -> std::optional<decltype(decode())> {
    try {
        return decode();
    } catch (const Error& error) {
        require(error.status() == Status::mismatch, "bytes of a peer are refused with mismatch");
        return std::nullopt;
    }
}

/// Takes an input apart from its front; past the end everything is zero.
class Feed {
  public:
    explicit Feed(std::string_view bytes) : rest_(bytes) {}
    [[nodiscard]] bool empty() const noexcept { return rest_.empty(); }
    [[nodiscard]] std::size_t size() const noexcept { return rest_.size(); }
    std::string_view take(std::size_t count) noexcept {
        const std::string_view taken = rest_.substr(0, count);
        rest_.remove_prefix(taken.size());
        return taken;
    }
    template <class Integer>
    Integer number() noexcept {
        std::uint64_t value = 0;
        int shift = 0;
        for (const char c : take(sizeof(Integer))) {
            value |= static_cast<std::uint64_t>(static_cast<unsigned char>(c)) << shift;
            shift += 8;
        }
        return static_cast<Integer>(value);
    }
    [[nodiscard]] std::string_view rest() noexcept { return take(rest_.size()); }

  private:
    std::string_view rest_;
};

}  // namespace railyard::fuzz
