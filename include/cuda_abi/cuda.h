// The part of the CUDA driver's binary interface that Railyard and its fake driver use, declared anew: names,
// values and layouts as every driver since 12.0 has them. Stands in for the CUDA Toolkit's cuda.h where that
// is not installed, so that a build needs no Toolkit. test/fakecuda/abi_test.py compares it with the
// Toolkit's.
#pragma once

#include <cstddef>
#include <cstdint>

/// The interface declared here; the Toolkit's header says its own number.
#define CUDA_VERSION 12000
#define RAILYARD_OWN_CUDA_ABI 1
#define CUDAAPI

using cuuint32_t = std::uint32_t;
using cuuint64_t = std::uint64_t;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUmemoryPool = struct CUmemPoolHandle_st*;
using CUmemGenericAllocationHandle = unsigned long long;
using CUhostFn = void (*)(void* user);

enum cudaError_enum : unsigned {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_DEINITIALIZED = 4,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_ALREADY_MAPPED = 208,
    CUDA_ERROR_ECC_UNCORRECTABLE = 214,
    CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
    CUDA_ERROR_INVALID_PTX = 218,
    CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,
    CUDA_ERROR_OPERATING_SYSTEM = 304,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_ILLEGAL_STATE = 401,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_LAUNCH_TIMEOUT = 702,
    CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
    CUDA_ERROR_ASSERT = 710,
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
    CUDA_ERROR_HARDWARE_STACK_ERROR = 714,
    CUDA_ERROR_ILLEGAL_INSTRUCTION = 715,
    CUDA_ERROR_MISALIGNED_ADDRESS = 716,
    CUDA_ERROR_INVALID_ADDRESS_SPACE = 717,
    CUDA_ERROR_INVALID_PC = 718,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_NOT_PERMITTED = 800,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
    CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
    CUDA_ERROR_UNKNOWN = 999,
};
using CUresult = cudaError_enum;

enum CUdevice_attribute_enum : unsigned {
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
    CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY = 19,
    CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
    CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
    CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT = 40,
    CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
    CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY = 83,
    CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM = 91,
    CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES = 98,
    CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED = 99,
    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED = 110,
    CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED = 116,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS = 117,
    CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING = 118,
    CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS = 122,
    CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR = 123,
    CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED = 124,
};
using CUdevice_attribute = CUdevice_attribute_enum;

enum CUpointer_attribute_enum : unsigned {
    CU_POINTER_ATTRIBUTE_CONTEXT = 1,
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
    CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
    CU_POINTER_ATTRIBUTE_HOST_POINTER = 4,
    CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6,
    CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,
    CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
    CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE = 10,
    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
    CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
    CU_POINTER_ATTRIBUTE_MAPPED = 13,
    CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES = 14,
    CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE = 15,
    CU_POINTER_ATTRIBUTE_ACCESS_FLAGS = 16,
    CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17,
};
using CUpointer_attribute = CUpointer_attribute_enum;

enum CUmemorytype_enum : unsigned {
    CU_MEMORYTYPE_HOST = 1,
    CU_MEMORYTYPE_DEVICE = 2,
    CU_MEMORYTYPE_ARRAY = 3,
    CU_MEMORYTYPE_UNIFIED = 4,
};
using CUmemorytype = CUmemorytype_enum;

enum CUctx_flags_enum : unsigned { CU_CTX_SCHED_AUTO = 0 };
enum CUstream_flags_enum : unsigned { CU_STREAM_DEFAULT = 0, CU_STREAM_NON_BLOCKING = 1 };
enum CUevent_flags_enum : unsigned {
    CU_EVENT_DEFAULT = 0,
    CU_EVENT_BLOCKING_SYNC = 1,
    CU_EVENT_DISABLE_TIMING = 2,
};
enum CUmemAttach_flags_enum : unsigned { CU_MEM_ATTACH_GLOBAL = 1, CU_MEM_ATTACH_HOST = 2 };
enum CUipcMem_flags_enum : unsigned {
    CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1,
};
struct CUipcMemHandle_st {
    char reserved[64];
};
using CUipcMemHandle = CUipcMemHandle_st;
#define CU_STREAM_LEGACY (reinterpret_cast<CUstream>(std::uintptr_t{1}))
#define CU_STREAM_PER_THREAD (reinterpret_cast<CUstream>(std::uintptr_t{2}))
#define CU_MEMHOSTALLOC_PORTABLE 0x01
#define CU_MEMHOSTALLOC_DEVICEMAP 0x02
#define CU_MEMHOSTREGISTER_PORTABLE 0x01
#define CU_MEMHOSTREGISTER_DEVICEMAP 0x02

enum CUstreamWaitValue_flags_enum : unsigned {
    CU_STREAM_WAIT_VALUE_GEQ = 0,
    CU_STREAM_WAIT_VALUE_EQ = 1,
    CU_STREAM_WAIT_VALUE_AND = 2,
    CU_STREAM_WAIT_VALUE_NOR = 3,
    CU_STREAM_WAIT_VALUE_FLUSH = 1 << 30,
};
enum CUstreamWriteValue_flags_enum : unsigned {
    CU_STREAM_WRITE_VALUE_DEFAULT = 0,
    CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER = 1,
};
enum CUstreamBatchMemOpType_enum : unsigned {
    CU_STREAM_MEM_OP_WAIT_VALUE_32 = 1,
    CU_STREAM_MEM_OP_WRITE_VALUE_32 = 2,
    CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES = 3,
    CU_STREAM_MEM_OP_WAIT_VALUE_64 = 4,
    CU_STREAM_MEM_OP_WRITE_VALUE_64 = 5,
    CU_STREAM_MEM_OP_BARRIER = 6,
};
using CUstreamBatchMemOpType = CUstreamBatchMemOpType_enum;

/// Wait and write have the same members: what to do, where, with which value.
struct RailyardCudaMemOpValue {
    CUstreamBatchMemOpType operation;
    CUdeviceptr address;
    union {
        cuuint32_t value;
        cuuint64_t value64;
    };
    unsigned flags;
    CUdeviceptr alias;  ///< the driver's own
};
struct RailyardCudaMemOpFlags {
    CUstreamBatchMemOpType operation;
    unsigned flags;
};
union CUstreamBatchMemOpParams_union {
    CUstreamBatchMemOpType operation;
    RailyardCudaMemOpValue waitValue;
    RailyardCudaMemOpValue writeValue;
    RailyardCudaMemOpFlags flushRemoteWrites;
    RailyardCudaMemOpFlags memoryBarrier;
    cuuint64_t pad[6];
};
using CUstreamBatchMemOpParams = CUstreamBatchMemOpParams_union;

enum CUstreamCaptureStatus_enum : unsigned {
    CU_STREAM_CAPTURE_STATUS_NONE = 0,
    CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
    CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2,
};
using CUstreamCaptureStatus = CUstreamCaptureStatus_enum;
enum CUstreamCaptureMode_enum : unsigned {
    CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
    CU_STREAM_CAPTURE_MODE_RELAXED = 2,
};
using CUstreamCaptureMode = CUstreamCaptureMode_enum;

enum CUflushGPUDirectRDMAWritesOptions_enum : unsigned {
    CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST = 1,
    CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_MEMOPS = 2,
};
enum CUGPUDirectRDMAWritesOrdering_enum : unsigned {
    CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE = 0,
    CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER = 100,
    CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES = 200,
};
enum CUflushGPUDirectRDMAWritesTarget_enum : unsigned {
    CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX = 0,
};
using CUflushGPUDirectRDMAWritesTarget = CUflushGPUDirectRDMAWritesTarget_enum;
enum CUflushGPUDirectRDMAWritesScope_enum : unsigned {
    CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER = 100,
    CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES = 200,
};
using CUflushGPUDirectRDMAWritesScope = CUflushGPUDirectRDMAWritesScope_enum;

enum CUmemRangeHandleType_enum : unsigned { CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD = 1 };
using CUmemRangeHandleType = CUmemRangeHandleType_enum;
enum CUmemRangeFlags_enum : unsigned {
    CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE = 1,
};
using CUmemRangeFlags = CUmemRangeFlags_enum;
enum CUmemAllocationHandleType_enum : unsigned {
    CU_MEM_HANDLE_TYPE_NONE = 0,
    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
};
using CUmemAllocationHandleType = CUmemAllocationHandleType_enum;
enum CUmemLocationType_enum : unsigned {
    CU_MEM_LOCATION_TYPE_INVALID = 0,
    CU_MEM_LOCATION_TYPE_DEVICE = 1,
    CU_MEM_LOCATION_TYPE_HOST = 2,
};
using CUmemLocationType = CUmemLocationType_enum;
enum CUmemAllocationType_enum : unsigned {
    CU_MEM_ALLOCATION_TYPE_INVALID = 0,
    CU_MEM_ALLOCATION_TYPE_PINNED = 1,
};
using CUmemAllocationType = CUmemAllocationType_enum;
enum CUmemAllocationGranularity_flags_enum : unsigned {
    CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
    CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1,
};
using CUmemAllocationGranularity_flags = CUmemAllocationGranularity_flags_enum;
enum CUmemAccess_flags_enum : unsigned {
    CU_MEM_ACCESS_FLAGS_PROT_NONE = 0,
    CU_MEM_ACCESS_FLAGS_PROT_READ = 1,
    CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
};
using CUmemAccess_flags = CUmemAccess_flags_enum;

struct CUmemLocation_st {
    CUmemLocationType type;
    int id;
};
using CUmemLocation = CUmemLocation_st;
struct CUmemAllocationProp_st {
    CUmemAllocationType type;
    CUmemAllocationHandleType requestedHandleTypes;
    CUmemLocation location;
    void* win32HandleMetaData;
    struct {
        unsigned char compressionType;
        unsigned char gpuDirectRDMACapable;
        unsigned short usage;
        unsigned char reserved[4];
    } allocFlags;
};
using CUmemAllocationProp = CUmemAllocationProp_st;
struct CUmemAccessDesc_st {
    CUmemLocation location;
    CUmemAccess_flags flags;
};
using CUmemAccessDesc = CUmemAccessDesc_st;

enum CUdriverProcAddress_flags_enum : unsigned { CU_GET_PROC_ADDRESS_DEFAULT = 0 };
enum CUdriverProcAddressQueryResult_enum : unsigned {
    CU_GET_PROC_ADDRESS_SUCCESS = 0,
    CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
    CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2,
};
using CUdriverProcAddressQueryResult = CUdriverProcAddressQueryResult_enum;

#include "cuda_functions.h"
