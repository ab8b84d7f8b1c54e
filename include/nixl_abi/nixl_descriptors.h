// Memory descriptors and lists of them, as host and plugin hand them to each other (NIXL 1.5.1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "nixl_types.h"

class nixlBackendMD;

/// `len` bytes at `addr` of device `devId`; the device of host memory has no meaning.
class nixlBasicDesc {
  public:
    std::uintptr_t addr = 0;
    std::size_t len = 0;
    std::uint64_t devId = 0;
};

/// A piece of a transfer with the backend's handle of the registration it lies in.
class nixlMetaDesc : public nixlBasicDesc {
  public:
    nixlBackendMD* metadataP = nullptr;
};

/// A region with bytes of metadata (what getPublicData gave, on the loading side).
class nixlBlobDesc : public nixlBasicDesc {
  public:
    nixl_blob_t metaInfo;
};

/// A piece of remote memory with the agent it belongs to; used by memory views only.
class nixlRemoteMetaDesc : public nixlMetaDesc {
  public:
    std::string remoteAgent;
};

/// A typed sequence of descriptors. A plugin only reads lists, through the functions that are inline in the
/// host too (getType, descCount, operator[], begin, end); the rest is for a host.
template <class T>
class nixlDescList {
  public:
    explicit nixlDescList(const nixl_mem_t& mem_type, const int& init_size = 0)
        : type(mem_type), descs(static_cast<std::size_t>(init_size)) {}
    nixlDescList(const nixlDescList&) = default;
    nixlDescList& operator=(const nixlDescList&) = default;
    nixlDescList(nixlDescList&&) noexcept = default;
    nixlDescList& operator=(nixlDescList&&) noexcept = default;

    virtual ~nixlDescList() = default;
    virtual void resize(const std::size_t& count) { descs.resize(count); }
    virtual void addDesc(const T& desc) { descs.push_back(desc); }
    /// Index of the descriptor with the same address, length and device, else NIXL_ERR_NOT_FOUND.
    virtual int getIndex(const nixlBasicDesc& query) const {
        for (std::size_t i = 0; i < descs.size(); ++i)
            if (descs[i].addr == query.addr && descs[i].len == query.len && descs[i].devId == query.devId)
                return static_cast<int>(i);
        return NIXL_ERR_NOT_FOUND;
    }

    nixl_mem_t getType() const { return type; }
    int descCount() const { return static_cast<int>(descs.size()); }
    bool isEmpty() const { return descs.empty(); }
    const T& operator[](std::size_t index) const { return descs[index]; }
    T& operator[](std::size_t index) { return descs[index]; }
    typename std::vector<T>::const_iterator begin() const { return descs.begin(); }
    typename std::vector<T>::const_iterator end() const { return descs.end(); }

  protected:
    nixl_mem_t type;
    std::vector<T> descs;
};

using nixl_meta_dlist_t = nixlDescList<nixlMetaDesc>;
using nixl_reg_dlist_t = nixlDescList<nixlBlobDesc>;
using nixl_remote_meta_dlist_t = nixlDescList<nixlRemoteMetaDesc>;
