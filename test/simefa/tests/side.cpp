#include "side.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace simefa::test {
namespace {

using Clock = std::chrono::steady_clock;

void check(int rc, const char* call) {
    if (rc != 0) throw std::runtime_error(std::string(call) + ": " + fi_strerror(-rc));
}

InfoPtr choose(const SideOptions& options) {
    const InfoPtr hints = make_hints(options.fabric);
    hints->caps |= options.more_caps;
    if (!options.shm) hints->caps |= FI_REMOTE_COMM;
    hints->mode |= options.more_mode;
    if (options.more_caps & FI_HMEM) hints->domain_attr->mr_mode |= FI_MR_HMEM;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = options.order;
    hints->tx_attr->size = options.transmit_size;
    hints->rx_attr->size = options.receive_size;
    hints->domain_attr->name = strdup((nic_name(options.nic) + "-rdm").c_str());
    InfoPtr found = get_info(hints.get(), options.version);
    if (!found) throw std::runtime_error("no info for " + options.fabric);
    return found;
}

}  // namespace

InfoPtr make_hints(const std::string& fabric) {
    InfoPtr hints(fi_allocinfo());
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->fabric_attr->prov_name = strdup("efa");
    if (!fabric.empty()) hints->fabric_attr->name = strdup(fabric.c_str());
    return hints;
}

InfoPtr get_info(const fi_info* hints, std::uint32_t version) {
    fi_info* list = nullptr;
    const int rc = fi_getinfo(version, nullptr, nullptr, 0, hints, &list);
    if (rc != -FI_ENODATA) check(rc, "fi_getinfo");
    return InfoPtr(list);
}

Side::Side(const SideOptions& wanted) : options(wanted), info(choose(wanted)) {
    check(fi_fabric(info->fabric_attr, &fabric, nullptr), "fi_fabric");
    fi_eq_attr event_attr{};
    if (options.event_queue) check(fi_eq_open(fabric, &event_attr, &events, nullptr), "fi_eq_open");
    check(fi_domain(fabric, info.get(), &domain, nullptr), "fi_domain");
    fi_av_attr vector_attr{};
    vector_attr.type = FI_AV_TABLE;
    check(fi_av_open(domain, &vector_attr, &vector, nullptr), "fi_av_open");
    fi_cq_attr queue_attr{};
    queue_attr.format = FI_CQ_FORMAT_TAGGED;
    queue_attr.size = options.queue_size;
    queue_attr.wait_obj = options.wait;
    check(fi_cq_open(domain, &queue_attr, &queue, nullptr), "fi_cq_open");
    check(fi_endpoint(domain, info.get(), &endpoint, nullptr), "fi_endpoint");
    if (events) check(fi_ep_bind(endpoint, &events->fid, 0), "fi_ep_bind(eq)");
    check(fi_ep_bind(endpoint, &queue->fid, FI_TRANSMIT | FI_RECV | options.bind_flags), "fi_ep_bind(cq)");
    check(fi_ep_bind(endpoint, &vector->fid, 0), "fi_ep_bind(av)");
    if (options.enable) enable();
}

void Side::enable() {
    check(fi_enable(endpoint), "fi_enable");
}

Side::~Side() {
    close_endpoint();
    for (fid_mr* region : regions_)
        EXPECT_EQ(fi_close(&region->fid), 0);
    EXPECT_EQ(fi_close(&queue->fid), 0);
    EXPECT_EQ(fi_close(&vector->fid), 0);
    EXPECT_EQ(fi_close(&domain->fid), 0);
    if (events) {
        EXPECT_EQ(fi_close(&events->fid), 0);
    }
    EXPECT_EQ(fi_close(&fabric->fid), 0);
}

void Side::close_endpoint() {
    if (endpoint) {
        EXPECT_EQ(fi_close(&endpoint->fid), 0);
    }
    endpoint = nullptr;
}

std::string Side::name() const {
    std::string raw(64, '\0');
    std::size_t length = raw.size();
    check(fi_getname(&endpoint->fid, raw.data(), &length), "fi_getname");
    raw.resize(length);
    return raw;
}

fi_addr_t Side::insert(const std::string& peer) {
    fi_addr_t position = FI_ADDR_NOTAVAIL;
    EXPECT_EQ(fi_av_insert(vector, peer.data(), 1, &position, 0, nullptr), 1);
    return position;
}

fid_mr* Side::add_region(void* address, std::size_t length, std::uint64_t access, fi_hmem_iface iface) {
    const iovec range{address, length};
    fi_mr_attr attr{};
    attr.mr_iov = &range;
    attr.iov_count = 1;
    attr.access = access;
    attr.iface = iface;
    fid_mr* region = nullptr;
    check(fi_mr_regattr(domain, &attr, 0, &region), "fi_mr_regattr");
    regions_.push_back(region);
    return region;
}

void Side::close_region(fid_mr* region) {
    std::erase(regions_, region);
    EXPECT_EQ(fi_close(&region->fid), 0);
}

std::optional<Done> Side::poll() {
    fi_cq_tagged_entry entry{};
    fi_addr_t source = FI_ADDR_NOTAVAIL;
    const ssize_t rc = fi_cq_readfrom(queue, &entry, 1, &source);
    if (rc == -FI_EAGAIN) return std::nullopt;
    if (rc == 1) return Done{entry.op_context, entry.flags, entry.len, entry.data, entry.tag, 0, 0, source};
    if (rc != -FI_EAVAIL)
        throw std::runtime_error(std::string("fi_cq_read: ") + fi_strerror(static_cast<int>(-rc)));
    fi_cq_err_entry error{};
    if (fi_cq_readerr(queue, &error, 0) != 1) throw std::runtime_error("fi_cq_readerr has nothing");
    return Done{error.op_context, error.flags, error.len,        error.data,
                error.tag,        error.err,   error.prov_errno, source};
}

Done Side::wait(int limit_ms) {
    const auto limit = Clock::now() + std::chrono::milliseconds(limit_ms);
    do {
        if (auto done = poll()) return *done;
        std::this_thread::yield();
    } while (Clock::now() < limit);
    throw std::runtime_error("no completion within " + std::to_string(limit_ms) + " ms");
}

bool Side::quiet_for(int ms) {
    const auto limit = Clock::now() + std::chrono::milliseconds(ms);
    do {
        if (poll()) return false;
        std::this_thread::yield();
    } while (Clock::now() < limit);
    return true;
}

ssize_t Side::write(const void* from, std::size_t length, fid_mr* region, fi_addr_t peer,
                    std::uint64_t remote, std::uint64_t key, std::uint64_t flags, void* context,
                    std::uint64_t data) {
    const iovec iov{const_cast<void*>(from), length};
    void* descriptor = region ? fi_mr_desc(region) : nullptr;
    const fi_rma_iov there{remote, length, key};
    const fi_msg_rma message{&iov, &descriptor, 1, peer, &there, 1, context, data};
    return fi_writemsg(endpoint, &message, flags);
}

ssize_t Side::read(void* to, std::size_t length, fid_mr* region, fi_addr_t peer, std::uint64_t remote,
                   std::uint64_t key, std::uint64_t flags, void* context) {
    const iovec iov{to, length};
    void* descriptor = region ? fi_mr_desc(region) : nullptr;
    const fi_rma_iov there{remote, length, key};
    const fi_msg_rma message{&iov, &descriptor, 1, peer, &there, 1, context, 0};
    return fi_readmsg(endpoint, &message, flags);
}

Pair::Pair(const SideOptions& options, std::size_t bytes) : Pair(options, options, bytes) {}

Pair::Pair(const SideOptions& left_options, const SideOptions& right_options, std::size_t bytes)
    : left(left_options),
      right(right_options),
      source(bytes),
      target(bytes),
      source_region(left.add_region(source.data(), bytes)),
      target_region(right.add_region(target.data(), bytes)),
      to_right(left.insert(right.name())),
      to_left(right.insert(left.name())) {
    fill(source, 1);
}

Done Pair::wait_left(int limit_ms) {
    const auto limit = Clock::now() + std::chrono::milliseconds(limit_ms);
    do {
        if (auto done = left.poll()) return *done;
        EXPECT_FALSE(right.poll()) << "an unexpected completion on the right";
        std::this_thread::yield();
    } while (Clock::now() < limit);
    throw std::runtime_error("no completion within " + std::to_string(limit_ms) + " ms");
}

void fill(std::vector<std::uint8_t>& bytes, std::uint32_t seed) {
    std::uint32_t state = seed * 2654435761U + 1;
    for (std::uint8_t& byte : bytes) {
        state = state * 1664525 + 1013904223;
        byte = static_cast<std::uint8_t>(state >> 24);
    }
}

std::string nic_name(unsigned index) {
    return "rdmap" + std::to_string(0x10 + index) + "s0";
}

std::string topology_xml(const std::vector<unsigned>& device_ids) {
    std::string text = R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
 <object type="Machine" os_index="0" cpuset="0x1" complete_cpuset="0x1" allowed_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" allowed_nodeset="0x1" gp_index="1">
  <object type="NUMANode" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="2" local_memory="1073741824"/>
  <object type="Bridge" gp_index="3" bridge_type="0-1" depth="0" bridge_pci="0000:[00-7f]">
)";
    unsigned number = 10;
    for (std::size_t i = 0; i < device_ids.size(); ++i) {
        char line[512];
        std::snprintf(
            line, sizeof(line),
            "   <object type=\"PCIDev\" gp_index=\"%u\" pci_busid=\"0000:%02x:00.0\" pci_type=\"0200 "
            "[1d0f:%04x] [1d0f:%04x] 00\" pci_link_speed=\"15.753846\">\n"
            "    <object type=\"OSDev\" gp_index=\"%u\" name=\"%s\" osdev_type=\"3\"/>\n   </object>\n",
            number, static_cast<unsigned>(0x10 + i), device_ids[i], device_ids[i], number + 1,
            nic_name(static_cast<unsigned>(i)).c_str());
        number += 2;
        text += line;
    }
    return text + "  </object>\n </object>\n</topology>\n";
}

}  // namespace simefa::test
