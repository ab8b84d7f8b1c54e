// The address of a Unix socket, from the name that people give it.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "common/status.h"

namespace railyard {

/// Of a path, or with a leading @ of a name in the kernel's abstract space, which has no file.
class UnixAddress {
  public:
    /// Throws Error{invalid_param} where it is empty or too long for a socket.
    explicit UnixAddress(const std::string& name) {
        if (name.empty() || name.size() >= sizeof(address_.sun_path)) {
            throw Error(Status::invalid_param, "no name for a socket: it has " + std::to_string(name.size()) +
                                                   " bytes, and 1 to " +
                                                   std::to_string(sizeof(address_.sun_path) - 1) + " fit");
        }
        address_.sun_family = AF_UNIX;
        std::memcpy(address_.sun_path, name.data(), name.size());
        if (is_abstract(name)) address_.sun_path[0] = '\0';
        // Of an abstract name every byte counts; a path has a zero behind it.
        length_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() +
                                         (is_abstract(name) ? 0 : 1));
    }
    [[nodiscard]] static bool is_abstract(const std::string& name) noexcept { return name.starts_with('@'); }
    [[nodiscard]] const sockaddr* get() const noexcept {
        return reinterpret_cast<const sockaddr*>(&address_);
    }
    [[nodiscard]] socklen_t length() const noexcept { return length_; }

  private:
    sockaddr_un address_{};
    socklen_t length_ = 0;
};

}  // namespace railyard
