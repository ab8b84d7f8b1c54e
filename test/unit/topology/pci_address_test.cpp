#include "topology/pci_address.h"

#include <gtest/gtest.h>

namespace railyard::topology {
namespace {

TEST(PciAddress, ReadsWhatToolsAndDriversPrint) {
    const PciAddress expected{0, 0x53, 0x1c, 7};
    for (const char* text : {"0000:53:1c.7", "00000000:53:1C.7", "53:1c.7", "0:53:1c.7"})
        EXPECT_EQ(parse_pci_address(text), expected) << text;
    EXPECT_EQ(parse_pci_address("10000:e1:00.0"), (PciAddress{0x10000, 0xe1, 0, 0}));
}

TEST(PciAddress, PrintsWithItsDomain) {
    EXPECT_EQ(to_string(PciAddress{0, 0x0a, 3, 1}), "0000:0a:03.1");
    EXPECT_EQ(to_string(PciAddress{0x10000, 0xe1, 0, 0}), "10000:e1:00.0");
    for (const char* text : {"0000:00:00.0", "ffff:ff:1f.7", "0001:4f:00.0"})
        EXPECT_EQ(to_string(parse_pci_address(text).value()), text);
}

TEST(PciAddress, RefusesEverythingElse) {
    for (const char* text :
         {"", ":", "53", "53:00", "53:00.", "53:00.8", "53:20.0", "100:00.0:0", "0000:53:00.0 ", " 53:00.0",
          "0000:53:00.00", "0000:0x53:00.0", "0000::00.0", "-1:53:00.0", "000000000:53:00.0", "0000:153:00.0",
          "0000:53:-1.0", "0000:53:00,0", "x"})
        EXPECT_FALSE(parse_pci_address(text)) << text;
}

TEST(PciAddress, OrdersByBus) {
    EXPECT_LT((PciAddress{0, 0xff, 0, 0}), (PciAddress{1, 0, 0, 0}));
    EXPECT_LT((PciAddress{0, 0x10, 0x1f, 0}), (PciAddress{0, 0x11, 0, 0}));
    EXPECT_LT((PciAddress{0, 0x10, 0x1b, 0}), (PciAddress{0, 0x10, 0x1b, 1}));
}

}  // namespace
}  // namespace railyard::topology
