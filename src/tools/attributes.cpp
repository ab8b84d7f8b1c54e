#include "tools/attributes.h"

#include "fabric/info.h"

namespace railyard::tools {
namespace {

class List {
  public:
    explicit List(const fi_info& info) : info_(info) {}

    std::vector<Attribute> fill() {
        general();
        if (info_.tx_attr) transmit(*info_.tx_attr);
        if (info_.rx_attr) receive(*info_.rx_attr);
        if (info_.ep_attr) endpoint(*info_.ep_attr);
        if (info_.domain_attr) domain(*info_.domain_attr);
        if (info_.fabric_attr) fabric(*info_.fabric_attr);
        if (info_.nic) nic(*info_.nic);
        return std::move(list_);
    }

  private:
    void add(const char* name, std::string value) { list_.push_back({group_, name, std::move(value)}); }
    void add(const char* name, std::size_t value) { add(name, std::to_string(value)); }
    void add(const char* name, const char* value) {
        if (value) add(name, std::string(value));
    }
    /// A set of flags or a member of an enumeration, in libfabric's words.
    template <typename Value>
    void named(const char* name, const Value& value, fi_type type) {
        const char* text = fi_tostr(&value, type);
        std::string words = text ? text : "";
        if (words.size() > 2 && words.front() == '[') words = words.substr(1, words.size() - 2);
        const std::size_t first = words.find_first_not_of(' ');
        const std::size_t last = words.find_last_not_of(' ');
        add(name, first == std::string::npos ? "none" : words.substr(first, last - first + 1));
    }

    void general() {
        group_ = "info";
        named("caps", info_.caps, FI_TYPE_CAPS);
        named("mode", info_.mode, FI_TYPE_MODE);
        named("addr_format", info_.addr_format, FI_TYPE_ADDR_FORMAT);
        add("src_addrlen", info_.src_addrlen);
    }

    void transmit(const fi_tx_attr& tx) {
        group_ = "tx";
        named("op_flags", tx.op_flags, FI_TYPE_OP_FLAGS);
        named("msg_order", tx.msg_order, FI_TYPE_MSG_ORDER);
        add("inject_size", tx.inject_size);
        add("size", tx.size);
        add("iov_limit", tx.iov_limit);
        add("rma_iov_limit", tx.rma_iov_limit);
    }

    void receive(const fi_rx_attr& rx) {
        group_ = "rx";
        add("size", rx.size);
        add("iov_limit", rx.iov_limit);
    }

    void endpoint(const fi_ep_attr& ep) {
        group_ = "ep";
        named("type", ep.type, FI_TYPE_EP_TYPE);
        named("protocol", ep.protocol, FI_TYPE_PROTOCOL);
        add("max_msg_size", ep.max_msg_size);
    }

    void domain(const fi_domain_attr& domain) {
        group_ = "domain";
        add("name", domain.name);
        named("threading", domain.threading, FI_TYPE_THREADING);
        named("control_progress", domain.control_progress, FI_TYPE_PROGRESS);
        named("data_progress", domain.data_progress, FI_TYPE_PROGRESS);
        named("mr_mode", domain.mr_mode, FI_TYPE_MR_MODE);
        add("mr_key_size", domain.mr_key_size);
        add("mr_iov_limit", domain.mr_iov_limit);
        add("mr_cnt", domain.mr_cnt);
        add("cq_data_size", domain.cq_data_size);
        add("cq_cnt", domain.cq_cnt);
        add("ep_cnt", domain.ep_cnt);
    }

    void fabric(const fi_fabric_attr& fabric) {
        group_ = "fabric";
        add("name", fabric.name);
        add("prov_name", fabric.prov_name);
        add("prov_version", version(fabric.prov_version));
        add("api_version", version(fabric.api_version));
    }

    static std::string version(std::uint32_t value) {
        return std::to_string(FI_MAJOR(value)) + "." + std::to_string(FI_MINOR(value));
    }

    void nic(const fid_nic& nic) {
        group_ = "nic";
        if (nic.device_attr) {
            add("name", nic.device_attr->name);
            add("vendor_id", nic.device_attr->vendor_id);
            add("device_id", nic.device_attr->device_id);
            add("device_version", nic.device_attr->device_version);
            add("driver", nic.device_attr->driver);
            add("firmware", nic.device_attr->firmware);
        }
        if (nic.link_attr) {
            add("address", nic.link_attr->address);
            add("mtu", nic.link_attr->mtu);
            add("speed", nic.link_attr->speed);
            add("network_type", nic.link_attr->network_type);
        }
    }

    const fi_info& info_;
    const char* group_ = "";
    std::vector<Attribute> list_;
};

}  // namespace

std::vector<Attribute> attributes_of(const fi_info& info) {
    return List(info).fill();
}

}  // namespace railyard::tools
