// Machines that are not here, and what railyard-info doctor says of them.
#pragma once

#include <gtest/gtest.h>
#include <rdma/fabric.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tools/doctor/diagnosis.h"

namespace railyard::tools {

inline constexpr fabric::AddressKind ipv4 = fabric::AddressKind::ipv4, no_address = fabric::AddressKind::none;
inline const VerbsDevice good_efa{"rdmap79s0", true, "efa", "/dev/infiniband/uverbs0", true, true};

/// A machine with one EFA, on which all is well.
struct Machine {
    Machine() {
        facts.kernel = {6, 8};
        facts.rdma_core = 52;
        facts.memlock = no_limit;
        facts.files = 1024;
        facts.free_huge_pages = 512;
        facts.free_shm = std::uint64_t{1} << 30;
        facts.devices = {good_efa};
        facts.interfaces = {{"lo", true, true, ipv4}, {"eth0", true, false, ipv4}};
        facts.routed = "eth0";
        facts.headers = facts.library = FI_VERSION(2, 1);
        survey.family = "efa-direct";
        RailRow rail;
        rail.name = "rdmap79s0";
        rail.state = "up";
        rail.gpu_memory = true;
        survey.rails = {rail};
    }
    /// The same over tcp, without an EFA.
    static Machine over_tcp(const std::string& interface) {
        Machine made;
        made.facts.devices.clear();
        made.survey.family = "tcp";
        made.survey.rails.front().name = interface;
        return made;
    }
    /// The same over shm, which auto has taken.
    static Machine over_shm() {
        Machine made = over_tcp("shm");
        made.survey.family = "shm";
        made.survey.unasked = true;
        return made;
    }
    /// All findings of a check that are worse than ok.
    [[nodiscard]] std::vector<Finding> troubles(const std::string& check) const {
        std::vector<Finding> found = diagnose(facts, survey);
        std::erase_if(found, [&](const Finding& finding) {
            return finding.check != check || finding.severity == Severity::ok;
        });
        return found;
    }
    HostFacts facts;
    Survey survey;
};

/// One finding of that check, as bad as that; its words and its remedy name these.
inline void expect_one(const Machine& machine, const std::string& check, Severity severity,
                       const std::string& what, const std::string& remedy) {
    const std::vector<Finding> found = machine.troubles(check);
    ASSERT_EQ(found.size(), 1u) << diagnosis_text(diagnose(machine.facts, machine.survey));
    EXPECT_EQ(found[0].severity, severity) << found[0].what;
    EXPECT_NE(found[0].what.find(what), std::string::npos) << found[0].what;
    EXPECT_NE(found[0].remedy.find(remedy), std::string::npos) << found[0].remedy;
    EXPECT_EQ(worst_of(diagnose(machine.facts, machine.survey)), severity);
}

}  // namespace railyard::tools
