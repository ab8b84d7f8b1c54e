// What the kernel would still send over connections that are closed.
#pragma once

#include <string>
#include <vector>

namespace railyard::fabric {

/// While it lives, connections of this process to any of `peers` (raw socket addresses, as their endpoints'
/// name()) that are closed are reset: bytes that the kernel has taken and not sent are not sent any more, be
/// the link back in a second or in a minute. Those that stay open are as before afterwards. One at a time;
/// throws std::bad_alloc.
class UnsentBytesDropped {
  public:
    explicit UnsentBytesDropped(std::vector<std::string> peers);
    ~UnsentBytesDropped();
    UnsentBytesDropped(const UnsentBytesDropped&) = delete;
    UnsentBytesDropped& operator=(const UnsentBytesDropped&) = delete;

  private:
    const std::vector<std::string> peers_;
    const std::vector<int> sockets_;
};

}  // namespace railyard::fabric
