// What initiators need to know of a target, to and from JSON. docs/flow.md has the fields.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/metadata.h"

namespace railyard::flow {

/// Of the JSON text; readers refuse newer ones.
inline constexpr int target_info_version = 1;

struct TargetInfo {
    ConnectionInfo connection;
    std::vector<MemoryInfo> regions;  ///< by grain index, all of one length
    std::uint32_t slices = 1;

    /// Unique, for people and for lists of targets.
    [[nodiscard]] const std::string& id() const noexcept { return connection.agent; }
};

[[nodiscard]] std::string to_json(const TargetInfo& info);
/// Any text is fine: throws Error{mismatch} that says what is wrong with it. Allocates in proportion to the
/// text.
[[nodiscard]] TargetInfo target_info_from_json(std::string_view text);

}  // namespace railyard::flow
