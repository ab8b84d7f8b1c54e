// Failures on demand.
#pragma once

#include <cuda.h>

#include <map>
#include <mutex>
#include <string>

namespace fakecuda {

class Failures {
  public:
    /// See fakecuda_fail.
    void add(const std::string& name, unsigned nth, CUresult error);
    /// NAME:NTH=ERROR, comma-separated; says on stderr what it cannot read.
    void add_all(const std::string& list);
    void clear();
    /// What this call of `name` (with or without its number) must answer.
    CUresult take(std::string name);

  private:
    struct Failure {
        unsigned nth;  ///< 0: every call
        CUresult error;
    };
    std::mutex mutex_;
    std::multimap<std::string, Failure> failures_;
};

}  // namespace fakecuda
