// The picture's contents before it has any coordinates: what lies inside what. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/survey.h"

namespace railyard::tools {

/// A NIC with its rails.
struct PictureNic {
    std::size_t rail = 0;           ///< the first of its rails
    std::size_t rails = 1;          ///< how many it has
    std::vector<std::size_t> gpus;  ///< whom it serves
    std::vector<int> nodes;         ///< whose host memory it carries
};

/// A GPU with the NICs that serve it alone and sit in its group.
struct PictureGpu {
    std::size_t gpu = 0;
    std::vector<std::size_t> own;      ///< indices into Picture::nics
    std::vector<std::size_t> distant;  ///< NICs that serve it from another group
};

/// A host bridge or a switch in it. Chains of bridges with one way down are one group, and a port with one
/// device is none.
struct PictureGroup {
    std::string title, subtitle;
    std::vector<PictureGpu> gpus;
    std::vector<std::size_t> nics;  ///< in this group, and not the own ones of a GPU
    std::vector<PictureGroup> groups;
};

/// A package, or what belongs to none.
struct PicturePanel {
    std::string title;
    std::vector<topology::NumaNode> nodes;
    std::vector<PictureGroup> groups;
};

struct PictureContents {
    std::vector<PictureNic> nics;
    std::vector<PicturePanel> panels;
    std::vector<std::size_t> placeless;  ///< rails without a place in the PCI tree
};

[[nodiscard]] PictureContents picture_contents(const Survey& survey);

}  // namespace railyard::tools
