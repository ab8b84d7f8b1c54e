#include "manager/gpu_path.h"

namespace railyard {

GpuPath::GpuPath(Gpu& gpu, RailSet rails, RailSet below_its_switch)
    : gpu_(gpu),
      rails_(std::move(rails)),
      below_its_switch_(std::move(below_its_switch)),
      own_("gpu" + std::to_string(gpu.ordinal()) + ":staging"),
      serving_("gpu" + std::to_string(gpu.ordinal()) + ":serving"),
      copies_("gpu" + std::to_string(gpu.ordinal()) + ":copies") {}

}  // namespace railyard
