#include "manager/gpu_path.h"

namespace railyard {

GpuPath::GpuPath(Gpu& gpu, RailSet rails)
    : gpu_(gpu),
      rails_(std::move(rails)),
      own_("gpu" + std::to_string(gpu.ordinal()) + ":staging"),
      serving_("gpu" + std::to_string(gpu.ordinal()) + ":serving"),
      copies_("gpu" + std::to_string(gpu.ordinal()) + ":copies") {}

}  // namespace railyard
