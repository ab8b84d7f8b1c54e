#include "manager/gpu_path.h"

namespace railyard {

GpuPath::GpuPath(Gpu& gpu)
    : gpu_(gpu),
      own_("gpu" + std::to_string(gpu.ordinal()) + ":staging"),
      serving_("gpu" + std::to_string(gpu.ordinal()) + ":serving"),
      copies_("gpu" + std::to_string(gpu.ordinal()) + ":copies") {}

}  // namespace railyard
