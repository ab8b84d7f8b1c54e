// What libfabric says of a device, as lines of text.
#pragma once

#include <string>
#include <vector>

struct fi_info;

namespace railyard::tools {

struct Attribute {
    std::string group;  ///< the structure of libfabric that it is in: "tx", "domain", "nic", ...
    std::string name;   ///< as libfabric calls it
    std::string value;
};

/// Those that fi_info prints and that matter to whoever moves data, in its order.
[[nodiscard]] std::vector<Attribute> attributes_of(const fi_info& info);

}  // namespace railyard::tools
