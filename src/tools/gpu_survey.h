// What the CUDA driver says of this machine's GPUs, as plain values.
#pragma once

#include <string>
#include <vector>

#include "cuda/device.h"

namespace railyard::tools {

struct GpuRow {
    cuda::Device device;
    std::string writes_ordering;  ///< whose reads find what a NIC wrote: "none", "owner", "all devices"
    std::string visibility;       ///< what a NIC's write lacks until the GPU sees it: "at once", ...
};

struct GpuSurvey {
    std::string built_with;      ///< with which declarations, in words
    std::string driver;          ///< "12.8": the CUDA version it knows; empty where there is none
    std::string absent_because;  ///< why there is no driver, or it shows no GPU
    std::vector<GpuRow> gpus;    ///< by ordinal, as CUDA_VISIBLE_DEVICES left them
};

/// Loads the driver. Throws nothing that the driver does: a failing one is a reason.
[[nodiscard]] GpuSurvey make_gpu_survey();

}  // namespace railyard::tools
